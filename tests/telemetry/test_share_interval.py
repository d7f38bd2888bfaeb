"""The interval of a share of two noised counts."""

import math

import numpy as np
import pytest

from dpsgd.telemetry.ratio import NOTHING, Z, share_of

DRAWS = 2000


@pytest.mark.parametrize("whole", [3, 20, 60, 400])
@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 0.8, 1.0])
def test_it_holds_the_true_share_however_small_the_counts(whole, fraction):
    generator = np.random.default_rng(int(whole + 1000 * fraction))
    true = np.array([fraction * whole, (1 - fraction) * whole])
    held = 0
    for noise in generator.normal(scale=10.0, size=(DRAWS, 2)):
        share = share_of(*(true + noise), variance=100.0)
        assert 0 <= share.lo <= share.hi <= 1
        assert math.isnan(share.value) or share.lo <= share.value <= share.hi
        held += share.lo <= fraction <= share.hi
    # Three standard deviations of such a count below 95 %.
    assert held / DRAWS > 0.95 - 3 * math.sqrt(0.95 * 0.05 / DRAWS)


def test_it_is_no_wider_than_the_noise_makes_it():
    generator = np.random.default_rng(0)
    true = np.array([300.0, 300.0])
    found = [share_of(*(true + n), 100.0) for n in generator.normal(scale=10.0, size=(DRAWS, 2))]
    held = np.mean([share.lo <= 0.5 <= share.hi for share in found])
    assert held == pytest.approx(0.95, abs=0.015)
    by_delta = Z * math.sqrt(0.5) * 10 / 600
    assert np.mean([(s.hi - s.lo) / 2 for s in found]) == pytest.approx(by_delta, rel=0.05)


def test_counts_within_their_noise_say_nothing():
    assert share_of(10.0, 10.0, 100.0) == NOTHING
    assert share_of(-50.0, -80.0, 100.0) == NOTHING
    assert not math.isnan(share_of(20.0, 10.0, 100.0).value)


def test_a_count_below_zero_counts_as_none():
    share = share_of(200.0, -30.0, 100.0)
    assert share.value == share.hi == 1.0
    assert share.lo < 1.0
