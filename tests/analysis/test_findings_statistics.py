from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.findings.statistics import (
    adjusted,
    flip_seeds,
    over_both,
    over_seeds,
    pooled,
    seeds_needed,
)


def test_over_seeds_alone_it_is_students_paired_t():
    values = np.array([0.3, 0.1, 0.25, 0.2])
    found, expected = over_seeds(values), stats.ttest_1samp(values, 0)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert found.p == pytest.approx(expected[1], rel=1e-6)
    assert (found.lo, found.hi) == pytest.approx((low, high))


def test_the_interval_touches_0_where_p_is_a_twentieth():
    generator = np.random.default_rng(0)
    rows = generator.random((3, 40)) - 0.5
    found = over_both([(1.0, rows)])
    moved = over_both([(1.0, rows - found.lo)])
    assert moved.p == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_where_nothing_differs_p_is_small_no_more_often_than_it_says(spread):
    generator = np.random.default_rng(1)
    alone, together = [], []
    for _ in range(150):
        hard = generator.normal(0, 1, 40)
        seeds = generator.normal(0, spread, (5, 3, 1))
        chance = 1 / (1 + np.exp(-(hard + generator.normal(0, 0.5, (5, 1, 40)) + seeds)))
        right = (generator.random((5, 3, 40)) < chance).astype(float)
        tests = [over_both([(1.0, right[0] - right[rule])]) for rule in range(1, 5)]
        alone += [test.p for test in tests]
        together += [test.p for test in pooled(tests)]
    for found in (np.array(alone), np.array(together)):
        assert (found <= 0.05).mean() <= 0.06
        assert (found <= 0.01).mean() <= 0.015


def test_one_seed_or_seeds_that_do_not_differ_test_nothing():
    for values in ([0.2], [0.2, 0.2, 0.2]):
        assert np.isnan(over_seeds(np.array(values)).p)


def test_shared_variance_is_never_smaller_than_ones_own_nor_than_the_mean():
    tests = [over_seeds(np.array(values)) for values in ([0.1, 0.11], [0.0, 0.4], [0.1, 0.3])]
    mean = np.mean([test.of_seeds for test in tests])
    for before, after in zip(tests, pooled(tests), strict=True):
        assert after.of_seeds == pytest.approx(max(before.of_seeds, mean))
        assert 1 < after.seed_freedom < 3


def test_corrected_p_are_those_of_scipy_and_the_untested_are_not_counted():
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.2])
    found = adjusted(p)
    tested = ~np.isnan(p)
    assert found[tested] == pytest.approx(stats.false_discovery_control(p[tested]))
    assert np.isnan(found[1])


def test_seeds_of_a_sign_flip_are_the_fewest_that_can_pass():
    for tests in (1, 20, 300):
        k = flip_seeds(tests)
        assert 2 / 2**k <= 0.05 / tests < 2 / 2 ** (k - 1)


def test_seeds_needed_fall_with_the_effect_and_are_none_where_examples_are_lacking():
    small, large = (over_seeds(np.array([m - 0.1, m, m + 0.1])) for m in (0.1, 0.2))
    few, many = seeds_needed(large, 10), seeds_needed(small, 10)
    assert few is not None
    assert many is not None
    assert few < many
    generator = np.random.default_rng(0)
    rows = np.tile(generator.choice([-1.0, 1.0], 12), (3, 1)) + generator.normal(0, 0.1, (3, 12))
    assert seeds_needed(over_both([(1.0, rows)]), 10) is None
