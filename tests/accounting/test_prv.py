"""The bound by privacy random variables: never below PLD, and within its error of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from accountants import ACCOUNTANTS, VECTORS, rate
from dp_accounting import get_epsilon_gaussian
from scipy.stats import norm

from dpsgd.accounting import PRV, poisson_gaussian
from dpsgd.accounting.library import (
    ComposedDpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.accounting.prv_library import Release, added, removed
from dpsgd.errors import ConfigError

ADD_REMOVE = "add_or_remove_one"
PLD, BOUND = ACCOUNTANTS["pld"], ACCOUNTANTS["prv"]
DRAW = poisson_gaussian(0.05, 2.0, 100)


def both(event, delta=1e-5):
    return [a.epsilon(event, ADD_REMOVE, delta) for a in (PLD, BOUND)]


@pytest.mark.parametrize("row", VECTORS["epsilon"], ids=lambda row: row["source"])
def test_the_bound_holds_the_published_value_within_its_error(row):
    event = poisson_gaussian(rate(row["q"]), row["sigma"], row["T"])
    epsilon = BOUND.epsilon(event, ADD_REMOVE, row["delta"])
    assert row["pld"] * (1 - 1e-4) <= epsilon <= row["pld"] * 1.02


@pytest.mark.parametrize("error", [0.3, 0.03])
def test_a_larger_error_gives_a_looser_bound(error):
    tight, loose = BOUND.epsilon(DRAW, ADD_REMOVE, 1e-5), PRV("prv", error)
    assert tight < loose.epsilon(DRAW, ADD_REMOVE, 1e-5) < tight * (1 + 2 * error)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"),
    [(0.3, 0.6, 3, 1e-6), (0.99, 5.0, 50, 1e-8), (0.07, 400.0, 426, 1e-4),
     (1e-3, 0.7, 20_000, 1e-9)],
)  # fmt: skip
def test_the_bound_is_never_below_pld(q, sigma, steps, delta):
    pld, bound = both(poisson_gaussian(q, sigma, steps), delta)
    assert pld * (1 - 5e-3) <= bound  # PLD itself lies up to 0.3 % above the truth


def test_noise_that_hides_nearly_everything_still_has_a_bound():
    event = poisson_gaussian(1e-4, 1e4, 100)
    assert 0 < BOUND.epsilon(event, ADD_REMOVE, 1e-5) < 0.01


@pytest.mark.parametrize("steps", [1, 7, 8, 2500])
def test_a_plain_gaussian_however_it_is_written(steps):
    exact = get_epsilon_gaussian(2.0, 1e-6)
    sigma = 2.0 * math.sqrt(steps)
    for event in (poisson_gaussian(1.0, sigma, steps), ComposedDpEvent([GaussianDpEvent(2.0)])):
        assert exact <= BOUND.epsilon(event, ADD_REMOVE, 1e-6) <= exact * 1.02


def test_releases_of_several_kinds_add_up():
    parts = [DRAW, GaussianDpEvent(3.0), poisson_gaussian(0.01, 0.8, 41)]
    pld, bound = both(ComposedDpEvent(parts))
    assert pld * (1 - 3e-3) <= bound <= pld * 1.02
    assert both(DRAW)[1] < bound


@pytest.mark.parametrize(("q", "sigma"), [(0.2, 0.7), (1e-3, 1.0), (0.99, 9.0)])
def test_both_losses_have_the_distribution_of_a_draw(q, sigma):
    x = sigma * np.linspace(-6, 6, 41)
    loss = np.log1p(q * np.expm1((2 * x - 1) / (2 * sigma**2)))
    release = Release(q, sigma, 1)
    seen = (1 - q) * norm.cdf(x / sigma) + q * norm.cdf((x - 1) / sigma)
    assert removed(release).cdf(loss) == pytest.approx(seen, rel=1e-6, abs=1e-12)
    assert added(release).cdf(-loss) == pytest.approx(norm.sf(x / sigma), rel=1e-6, abs=1e-12)
    assert added(release).cdf(np.array([-math.log1p(-q) + 1e-9])) == 1


@pytest.mark.parametrize(
    "event",
    [
        TruncatedSubsampledGaussianDpEvent(3636, 0.07, 300, 2.0),
        MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.8, 0.1, 0.1]),
        PoissonSampledDpEvent(0.1, ComposedDpEvent([GaussianDpEvent(1.0)])),
    ],
    ids=lambda event: type(event).__name__,
)
def test_other_events_are_refused_and_pld_is_named(event):
    with pytest.raises(ConfigError, match="accountant=pld"):
        BOUND.epsilon(event, ADD_REMOVE, 1e-5)


def test_replace_one_is_refused():
    with pytest.raises(ConfigError, match="accountant=pld"):
        BOUND.epsilon(DRAW, "replace_one", 1e-5)


def test_a_huge_epsilon_is_refused_at_once_rather_than_filling_memory():
    with pytest.raises(ConfigError, match="accountant=pld"):
        BOUND.epsilon(poisson_gaussian(0.5, 0.02, 1000), ADD_REMOVE, 1e-5)
    pld, bound = both(poisson_gaussian(0.5, 0.5, 30))
    assert 50 < pld <= bound < pld * 1.02


def test_a_delta_below_the_rounding_error_is_refused():
    with pytest.raises(ConfigError, match="accountant=prv over"):
        BOUND.epsilon(poisson_gaussian(1e-4, 1.0, 10**6), ADD_REMOVE, 1e-9)


@pytest.mark.parametrize("error", [0.0, -1.0, 1.5, math.nan])
def test_an_error_that_bounds_nothing_is_refused(error):
    with pytest.raises(ConfigError, match="error"):
        PRV("prv", error)
