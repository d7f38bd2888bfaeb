"""Slices of unequal size compared: attacks and exposures of one set of records against another.

The smaller of two slices decides how much their difference can say. A few examples that all came
out right do not show an area of one, and a mean of ten is no normal: what holds for thousands of
records would call small slices different far too often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from dpsgd.auditing.membership import Flags, Floats, Integers, placements

FEWEST = 3
"""Of members, of others and of exposures on each side: fewer are not compared."""
PERMUTATIONS = 999
_LEVEL = 0.05
_MOST_SIGMAS = 30.0
_EDGE = 1e-9


@dataclass(frozen=True)
class Difference:
    """First minus second, its 95 % interval, and the two-sided p of no difference; NaN where there
    are too few records to say.
    """

    value: float
    lo: float
    hi: float
    p: float


NO_DIFFERENCE = Difference(math.nan, math.nan, math.nan, math.nan)


def auc_difference(
    scores: Floats, member: Flags, first: Flags, second: Flags, cluster: Integers | None = None
) -> Difference:
    """Return how much larger the area under the ROC curve is of ``first`` than of ``second``.

    All ``[n]``; ``first`` and ``second`` are disjoint. The interval joins those of both areas
    (Zou and Donner, Statistics in Medicine 2008, equation 4). Each area's own is the score interval
    of Newcombe (Statistics in Medicine 2006, method 5), whose variance is that of the area asked
    for and not of the one seen, so that an area of 1 in few records has an interval, too. Where
    the placements vary more than that model, or scores of one ``cluster`` depend on each other, the
    variance is raised to that of Obuchowski (Biometrics 1997).
    """
    sides = [_Area.of(scores, member, chosen, cluster) for chosen in (first, second)]
    if any(side is None for side in sides):
        return NO_DIFFERENCE
    one, other = (side for side in sides if side is not None)
    value = one.area - other.area

    def ends(sigmas: float) -> tuple[float, float]:
        (a_low, a_high), (b_low, b_high) = one.interval(sigmas), other.interval(sigmas)
        low = math.hypot(one.area - a_low, b_high - other.area)
        return value - low, value + math.hypot(a_high - one.area, other.area - b_low)

    def reach(sigmas: float) -> float:
        low, high = ends(sigmas)
        return -low if value > 0 else high

    lo, hi = ends(float(stats.norm.isf(_LEVEL / 2)))
    return Difference(value, lo, hi, _p(reach))


def mean_difference(first: Floats, second: Floats, generator: np.random.Generator) -> Difference:
    """Return how much larger the mean of ``first`` ``[m]`` is than that of ``second`` ``[n]``.

    By permutation of Welch's studentised difference: exact where both have one distribution,
    whatever it and the sizes are, and right for many where only the means agree (Janssen,
    Statistics & Probability Letters 1997). NaNs are left out.
    """
    first, second = (values[np.isfinite(values)] for values in (first, second))
    m, both = len(first), np.concatenate([first, second])
    if min(m, len(second)) < FEWEST:
        return NO_DIFFERENCE
    order = generator.permuted(np.tile(np.arange(len(both)), (PERMUTATIONS, 1)), axis=1)
    value, error = _welch(both[np.newaxis], m)
    differences, errors = _welch(both[order], m)
    if not error[0] > 0:
        return Difference(float(value[0]), math.nan, math.nan, math.nan)
    shuffled = np.divide(
        differences, errors, out=np.where(differences == 0, 0.0, np.inf), where=errors > 0
    )
    found = float(value[0] / error[0])
    p = (1 + int((np.abs(shuffled) >= abs(found)).sum())) / (PERMUTATIONS + 1)
    half = float(np.sort(np.abs(shuffled))[math.ceil((1 - _LEVEL) * (PERMUTATIONS + 1)) - 1])
    half *= float(error[0])
    return Difference(float(value[0]), float(value[0]) - half, float(value[0]) + half, p)


@dataclass(frozen=True)
class _Area:
    """An area under the curve of ``members`` and ``others``, its variance ``excess`` (1 or more)
    times that of the model.
    """

    area: float
    members: int
    others: int
    excess: float

    @classmethod
    def of(
        cls, scores: Floats, member: Flags, chosen: Flags, cluster: Integers | None
    ) -> _Area | None:
        known = chosen & ~np.isnan(scores)
        inside = member[known]
        m, n = int(inside.sum()), int((~inside).sum())
        if min(m, n) < FEWEST:
            return None
        names = None if cluster is None else cluster[known]
        area, variance = placements(scores[known], inside, names)
        model = _variance(area, m, n)
        return cls(area, m, n, max(1.0, variance / model) if model > 0 else 1.0)

    def interval(self, sigmas: float) -> tuple[float, float]:
        """Return the areas that lie ``sigmas`` of their own standard deviations from this one."""

        def away(area: float) -> float:
            own = self.excess * _variance(area, self.members, self.others)
            return abs(self.area - area) - sigmas * math.sqrt(own)

        if not sigmas:
            return self.area, self.area
        # At 0 and 1 an area has no variance, and is trivially no way from itself.
        below, above = min(self.area, 1 - _EDGE), max(self.area, _EDGE)
        low = _root(away, 0.0, below, _EDGE) if self.area > 0 else 0.0
        high = _root(away, above, 1.0, _EDGE) if self.area < 1 else 1.0
        return low, high


def _variance(area: float, members: int, others: int) -> float:
    """Return the variance of an area that is truly ``area`` (Newcombe 2006, method 5)."""
    more = (members + others) / 2 - 1
    spread = 1 + more * (1 - area) / (2 - area) + more * area / (1 + area)
    return area * (1 - area) * spread / (members * others)


def _p(reach: Callable[[float], float]) -> float:
    """Return the level at which an interval first reaches 0, by how many σ it takes."""
    if reach(0.0) >= 0:
        return 1.0
    if reach(_MOST_SIGMAS) < 0:
        return 2 * float(stats.norm.sf(_MOST_SIGMAS))
    return 2 * float(stats.norm.sf(_root(reach, 0.0, _MOST_SIGMAS, 1e-4)))


def _root(function: Callable[[float], float], low: float, high: float, precision: float) -> float:
    return float(optimize.brentq(function, low, high, xtol=precision))  # pyright: ignore[reportArgumentType]


def _welch(values: NDArray[np.float64], m: int) -> tuple[Floats, Floats]:
    """Return difference of means and its standard error of rows ``[k, m + n]``, the first m
    against the rest.
    """
    one, other = values[:, :m], values[:, m:]
    variance = one.var(1, ddof=1) / m + other.var(1, ddof=1) / other.shape[1]
    return one.mean(1) - other.mean(1), np.sqrt(variance)
