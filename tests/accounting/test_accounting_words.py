from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsgd.accounting import (
    check_delta,
    default_delta,
    format_delta,
    format_epsilon,
    joint_multiplier,
    poisson_gaussian,
)
from dpsgd.errors import ConfigError

MULTIPLIERS = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("n", "delta"),
    [(3700, 1e-4), (3636, 1e-4), (500, 1e-3), (60_000, 5e-6), (10**7, 1e-8), (2, 0.4)],
)
def test_the_default_delta_of_a_known_n(n, delta):
    assert default_delta(n) == delta


@given(st.integers(2, 10**12))
def test_the_default_delta_is_the_largest_one_digit_number_below(n):
    digit, exponent = (int(part) for part in f"{default_delta(n):.0e}".split("e"))
    assert float(f"{digit}e{exponent}") == default_delta(n)

    def below(number):
        return number**10 * n**11 <= 1

    unit = Fraction(10) ** exponent
    assert below(digit * unit)
    assert not below((digit + 1) * unit)


@given(st.integers(2, 10**12))
def test_the_default_delta_passes_its_own_check(n):
    check_delta(default_delta(n), n)


@pytest.mark.parametrize(("delta", "n"), [(1e-5, 10**7), (1 / 500, 500), (0.01, 100)])
def test_a_delta_of_one_unit_or_more_is_refused_with_both_numbers(delta, n):
    with pytest.raises(ConfigError, match=f"{delta}.*1/{n}") as caught:
        check_delta(delta, n)
    assert caught.value.key == "delta"


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf])
def test_a_delta_that_is_no_small_probability_is_refused(delta):
    with pytest.raises(ConfigError, match="delta"):
        check_delta(delta, 100)


@pytest.mark.parametrize("n", [0, 1])
def test_one_unit_has_no_default_delta(n):
    with pytest.raises(ConfigError, match="at least 2"):
        default_delta(n)


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [(3.0, "3"), (2.9971, "3"), (2.38178, "2.39"), (2.38, "2.38"), (0.64011, "0.641"), (0.0, "0"),
     (14.8301, "14.9"), (0.00999, "0.00999"), (9.9901, "10"), (1234.5, "1240"), (math.inf, "∞")],
)  # fmt: skip
def test_epsilon_is_written_short(epsilon, text):
    assert format_epsilon(epsilon) == text


@given(st.floats(1e-6, 1e7))
def test_a_written_epsilon_never_understates(epsilon):
    text = format_epsilon(epsilon)
    assert epsilon <= float(text) <= epsilon * 1.0101
    assert len(text.replace(".", "").strip("0")) <= 3


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_what_is_no_epsilon_is_not_written(epsilon):
    with pytest.raises(ConfigError, match="epsilon"):
        format_epsilon(epsilon)


@pytest.mark.parametrize(
    ("delta", "text"),
    [(1e-4, "1e-4"), (1e-10, "1e-10"), (1.5e-5, "1.5e-5"), (0.05, "5e-2"), (1.2341e-5, "1.24e-5")],
)
def test_delta_is_written_as_a_power_of_ten(delta, text):
    assert format_delta(delta) == text


@given(MULTIPLIERS)
def test_the_joint_multiplier_adds_precisions(sigmas):
    assert joint_multiplier(sigmas) ** -2 == pytest.approx(sum(s**-2 for s in sigmas), rel=1e-9)


@given(MULTIPLIERS)
def test_another_release_never_adds_privacy(sigmas):
    joint = joint_multiplier(sigmas)
    assert joint <= min(sigmas)
    assert joint_multiplier([*sigmas, math.inf]) == joint
    assert joint_multiplier([*sigmas, 0.0]) == 0


@pytest.mark.parametrize("sigmas", [[], [-1.0], [1.0, math.nan]])
def test_what_is_no_multiplier_is_not_joined(sigmas):
    with pytest.raises(ConfigError, match="noise_multiplier"):
        joint_multiplier(sigmas)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "key"),
    [(0.0, 1.0, 1, "sampling_probability"), (1.1, 1.0, 1, "sampling_probability"),
     (math.nan, 1.0, 1, "sampling_probability"), (0.1, -1.0, 1, "noise_multiplier"),
     (0.1, math.inf, 1, "noise_multiplier"), (0.1, math.nan, 1, "noise_multiplier"),
     (0.1, 1.0, -1, "steps"), (0.1, 1.0, 1.5, "steps"), (0.1, 1.0, math.nan, "steps")],
)  # fmt: skip
def test_an_impossible_release_is_refused_by_key(q, sigma, steps, key):
    with pytest.raises(ConfigError) as caught:
        poisson_gaussian(q, sigma, steps)
    assert caught.value.key == key
