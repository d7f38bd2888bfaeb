"""Exposure: how far a canary stands out among what might have been in its place, in bits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

FEWEST = 10
"""A distribution is fitted to no fewer reference losses."""


def exposures(canaries: Floats, references: Floats) -> Floats:
    """Return log2(n) − log2(rank) of each canary's loss ``[m]`` among ``references``; ``[m]``.

    The set that a canary is ranked in has n = len(``references``) + 1 members, itself among them;
    rank 1 is the least loss, and a tie counts against the canary. Between 0 and log2(n) bits
    (Carlini et al., "The secret sharer", USENIX Security 2019, definition 2). NaN losses have none.
    Raises ValueError for no references, or one that is NaN.
    """
    ordered = _ordered(references)
    rank = 1 + np.searchsorted(ordered, canaries, side="right")
    found = np.log2(len(ordered) + 1) - np.log2(rank)
    return np.where(np.isnan(canaries), np.nan, found)


def extrapolated(canaries: Floats, references: Floats) -> Floats:
    """Return −log2 P[L ≤ loss] of each canary's loss ``[m]``, L a skew-normal fitted to
    ``references`` by moments: exposure beyond log2 of the set (ibid., section 4.3); ``[m]``.

    It rests on the fit, far in its tail: a figure to compare by, not one to bound with. NaN where
    references do not spread, or are fewer than ``FEWEST``.
    """
    ordered = _ordered(references)
    spread = float(ordered.std())
    if len(ordered) < FEWEST or not spread > 0:
        return np.full(len(canaries), np.nan)
    shape, place, width = _skew_normal(ordered, spread)
    found = -stats.skewnorm.logcdf(canaries, shape, loc=place, scale=width) / math.log(2)
    return np.where(np.isnan(canaries), np.nan, found)


def _skew_normal(values: Floats, spread: float) -> tuple[float, float, float]:
    """Return shape, place and width of the skew-normal with the moments of ``values``."""
    third = float(np.clip(stats.skew(values), -0.99, 0.99))  # a skew-normal has |skewness| < .995
    power = abs(third) ** (2 / 3)
    delta = math.copysign(
        math.sqrt(math.pi / 2 * power / (power + ((4 - math.pi) / 2) ** (2 / 3))), third
    )
    width = spread / math.sqrt(1 - 2 * delta**2 / math.pi)
    place = float(values.mean()) - width * delta * math.sqrt(2 / math.pi)
    return delta / math.sqrt(1 - delta**2), place, width


def _ordered(references: Floats) -> Floats:
    ordered = np.sort(np.asarray(references, np.float64))
    if not len(ordered) or np.isnan(ordered).any():
        raise ValueError("a canary is ranked among one reference loss at least, none of them NaN")
    return ordered
