"""The test behind every finding: a mean difference over seeds and examples, and its correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from analysis.interval import ANY, Range

LEVEL = 0.05
FEWEST = 10
"""Fewest examples of a slice for a test: below, a variance over examples says little."""

_TINY = 1e-12
_MOST_SEEDS = 100
_SHARED = 0.25
_HALVINGS = 40


@dataclass(frozen=True)
class Estimate:
    """A mean difference and what is known of its error.

    ``of_seeds`` is the variance of one seed's difference, with ``seed_freedom`` degrees of freedom;
    ``of_examples`` the variance of the mean that other examples would bring, with
    ``example_freedom``: both 0 where no examples were read. ``lo``, ``hi``: the 95 % interval, cut
    to ``within``, what the difference can be; ``p``: two-sided, of no difference. NaN where nothing
    can be tested.
    """

    mean: float
    seeds: int
    of_seeds: float
    seed_freedom: float
    of_examples: float
    example_freedom: float
    within: Range = ANY
    lo: float = math.nan
    hi: float = math.nan
    p: float = math.nan

    def cut(self, within: Range) -> Estimate:
        """Return this estimate of a difference that can only be ``within``; p stays."""
        ends = max(self.lo, within[0]), min(self.hi, within[1])
        return replace(self, within=within, lo=ends[0], hi=ends[1])


def over_seeds(values: np.ndarray) -> Estimate:
    """Return the mean of ``[seeds]`` paired differences, for other seeds: Student's t."""
    return _tested(_of_means(values, 0.0, 0.0))


def over_both(parts: Sequence[tuple[float, np.ndarray]]) -> Estimate:
    """Return Σ weight · mean of ``[seeds, examples]``, for other seeds and other examples.

    The parts are disjoint sets of examples with the same seeds. The variance is that of the means
    of seeds plus that of the means of examples: the two-way clustered one of Cameron, Gelbach and
    Miller (2011) without the term that it takes off again, so on average not too small. n examples
    tell no share better than 1/n.
    """
    values = np.sum([weight * part.mean(axis=1) for weight, part in parts], axis=0)
    pieces = [(w * w * _of_mean(part.mean(axis=0)), part.shape[1]) for w, part in parts]
    of_examples = sum(variance for variance, _ in pieces)
    freedom = of_examples**2 / sum(variance**2 / max(n - 1, 1) for variance, n in pieces)
    return _tested(_of_means(values, of_examples, freedom))


def pooled(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Return estimates of one kind on one slice with the variance over seeds that they share.

    Few seeds tell their own variance badly, so each takes the larger of its own and the mean of
    all. Differences from a shared run are correlated by ½ where all runs vary alike, and their
    variances by ¼: m of them with f degrees of freedom in all are worth f/(1 + (m − 1)/4).
    """
    known = [one for one in estimates if one.seed_freedom > 0]
    if not known:
        return list(estimates)
    total = sum(one.seed_freedom for one in known)
    mean = sum(one.of_seeds * one.seed_freedom for one in known) / total
    freedom = total / (1 + _SHARED * (len(known) - 1))
    return [
        _tested(replace(one, of_seeds=max(one.of_seeds, mean), seed_freedom=freedom))
        if one.seed_freedom > 0
        else one
        for one in estimates
    ]


def adjusted(p: np.ndarray) -> np.ndarray:
    """Return p-values corrected by Benjamini and Hochberg (1995); NaN, not tested, stays NaN."""
    found = np.full(len(p), np.nan)
    tested = np.flatnonzero(np.isfinite(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    raised = p[order] * len(order) / np.arange(1, len(order) + 1)
    found[order] = np.minimum(1, np.minimum.accumulate(raised[::-1])[::-1])
    return found


def flip_seeds(tests: int) -> int:
    """Return with how many seeds a sign-flip test could pass: its smallest p is 2/2^k, and where
    the other ``tests`` − 1 find nothing it must not exceed level/tests.
    """
    return math.ceil(math.log2(2 * max(tests, 1) / LEVEL))


def seeds_needed(estimate: Estimate, tests: int) -> int | None:
    """Return how many seeds would tell this mean from 0, if mean and spread are what they look.

    At level/``tests``, the strictest that the correction asks for. None where 100 are too few: more
    test examples would be needed.
    """
    if estimate.seed_freedom <= 0:
        return None
    each = estimate.seed_freedom / (estimate.seeds - 1)
    for seeds in range(estimate.seeds + 1, _MOST_SEEDS + 1):
        more = replace(estimate, seeds=seeds, seed_freedom=each * (seeds - 1))
        if _half(more, LEVEL / max(tests, 1)) < abs(estimate.mean):
            return seeds
    return None


def _of_means(values: np.ndarray, of_examples: float, freedom: float) -> Estimate:
    seeds = len(values)
    mean = float(values.mean()) if seeds else math.nan
    of_seeds = float(values.var(ddof=1)) if seeds > 1 else math.nan
    return Estimate(mean, seeds, of_seeds, max(seeds - 1, 0), of_examples, freedom)


def _tested(one: Estimate) -> Estimate:
    """Return an estimate with its test; none for one seed, or seeds that differ by nothing."""
    if one.seed_freedom <= 0 or one.of_seeds + one.of_examples <= _TINY:
        return one
    half = _half(one, LEVEL)
    return replace(one, lo=one.mean - half, hi=one.mean + half, p=_p(one)).cut(one.within)


def _half(one: Estimate, level: float) -> float:
    """Return half of an interval that holds with at least 1 − level: each variance times the
    squared quantile of its own degrees of freedom (Banerjee 1960).
    """
    total = _quantile(one.seed_freedom, level) ** 2 * one.of_seeds / one.seeds
    if one.of_examples:
        total += _quantile(one.example_freedom, level) ** 2 * one.of_examples
    return math.sqrt(total)


def _p(one: Estimate) -> float:
    """Return the level at which the interval just reaches 0, by halving its logarithm."""
    low, high = -30.0, 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reaches = _half(one, 10**middle) >= abs(one.mean)
        low, high = (middle, high) if reaches else (low, middle)
    return 10**high


def _quantile(freedom: float, level: float) -> float:
    return -float(stdtrit(freedom, level / 2))


def _of_mean(values: np.ndarray) -> float:
    n = len(values)
    return max(float(values.var(ddof=1)) / n, 1 / n**2) if n > 1 else 1.0
