"""Slices of unequal size: the stated level whatever the sizes, and power where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpsgd.auditing.fairness import auc_difference, mean_difference
from dpsgd.auditing.membership import auc

SMALL, LARGE, TRIALS = 20, 2000, 150


def one_audit(generator, area, rare_area):
    """Scores of a slice of 20 and one of 2,000, with their true areas; half are members."""
    rare = np.arange(SMALL + LARGE) < SMALL
    member = np.arange(SMALL + LARGE) % 2 == 0
    shift = np.sqrt(2) * stats.norm.ppf(np.where(rare, rare_area, area))
    return generator.normal(size=len(rare)) + shift * member, member, rare


def refused(area, rare_area, seed=0):
    generator = np.random.default_rng(seed)
    found = [one_audit(generator, area, rare_area) for _ in range(TRIALS)]
    return np.array([auc_difference(s, m, rare, ~rare) for s, m, rare in found])


@pytest.mark.parametrize("area", [0.5, 0.7, 0.9, 0.97])
def test_areas_of_20_and_of_2000_that_agree_are_told_apart_one_time_in_twenty(area):
    found = refused(area, area)
    told = np.mean([not one.lo <= 0 <= one.hi for one in found])
    assert told <= 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / TRIALS)  # 0.091
    assert np.mean([one.p < 0.05 for one in found]) == told


def test_what_holds_for_thousands_calls_small_slices_different_far_too_often():
    # The reason for the interval above: Wald's, of the variance that is seen.
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(TRIALS):
        scores, member, rare = one_audit(generator, 0.97, 0.97)
        small, large = (auc(scores[chosen], member[chosen]) for chosen in (rare, ~rare))
        wrong += not large.lo <= small.value <= large.hi
    assert wrong / TRIALS > 0.3


def test_a_planted_difference_is_found():
    assert np.mean([one.p < 0.05 for one in refused(0.5, 0.9)]) > 0.8
    assert np.mean([one.p < 0.05 and one.value < 0 for one in refused(0.95, 0.6)]) > 0.8


def test_an_area_of_one_in_few_records_is_no_certainty():
    rare = np.arange(2010) < 10
    member = np.arange(2010) % 2 == 0
    generator = np.random.default_rng(3)
    scores = generator.normal(size=2010) + np.where(rare, 9.0, 1.8) * member
    found = auc_difference(scores, member, rare, ~rare)
    assert found.value > 0.05
    assert found.lo < 0 < found.p < 1
    assert auc_difference(scores, member, ~rare, rare).value == pytest.approx(-found.value)


def test_the_same_scores_many_times_over_say_no_more():
    generator = np.random.default_rng(4)
    scores, member, rare = one_audit(generator, 0.6, 0.9)
    alone = auc_difference(scores, member, rare, ~rare)
    names = np.tile(np.arange(len(scores)), 5)
    many = auc_difference(*(np.tile(x, 5) for x in (scores, member, rare, ~rare)), cluster=names)
    assert many.value == pytest.approx(alone.value)
    assert many.hi - many.lo > 0.8 * (alone.hi - alone.lo)


def test_exposures_of_10_and_of_300_that_agree_are_told_apart_one_time_in_twenty():
    generator = np.random.default_rng(5)
    found = []
    for _ in range(TRIALS):
        first, second = (generator.exponential(1 / np.log(2), size=n) for n in (10, 300))
        found.append(mean_difference(first, second, generator))
    told = np.mean([not one.lo <= 0 <= one.hi for one in found])
    assert told <= 0.091
    assert np.mean([one.p <= 0.05 for one in found]) == pytest.approx(told, abs=0.01)


def test_exposures_that_differ_are_found_and_nan_is_left_out():
    generator = np.random.default_rng(6)
    first = np.append(generator.exponential(1.44, size=20) + 3, np.nan)
    found = mean_difference(first, generator.exponential(1.44, size=200), generator)
    assert found.p < 0.01
    assert found.lo < 3 < found.hi
    assert found.value == pytest.approx(3, abs=1)


def test_too_few_to_compare_are_not_compared():
    generator = np.random.default_rng(7)
    assert np.isnan(mean_difference(np.zeros(2), np.arange(9.0), generator).value)
    scores, member = np.arange(20.0), np.arange(20) < 10
    few = np.arange(20) < 2
    assert np.isnan(auc_difference(scores, member, few, ~few).p)
    same = mean_difference(np.ones(5), np.ones(9), generator)
    assert same.value == 0
    assert np.isnan(same.p)
