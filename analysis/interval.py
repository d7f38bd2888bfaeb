"""Means over seeds with their interval, and intervals of shares."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

LEVEL = 0.95

Range: TypeAlias = tuple[float, float]
"""The least and the most that a quantity can be: an interval that Student's t takes beyond says
nothing more, and is cut there."""

ANY: Range = (-math.inf, math.inf)
SHARE: Range = (0.0, 1.0)
DIFFERENCE: Range = (-1.0, 1.0)
_NOT_SHARES = {"exposure": (0.0, math.inf), "exposure_extrapolated": (0.0, math.inf),
               "exposure_gap": ANY, "membership_auc_gap": DIFFERENCE, "nll": (0.0, math.inf),
               "brier": (0.0, 2.0), "kept": (0.0, math.inf)}  # fmt: skip


def range_of(metric: str) -> Range:
    """Return the least and the most that a metric of ``schema.METRICS`` can be."""
    return _NOT_SHARES.get(metric, SHARE)


def t_interval(
    mean: np.ndarray, sd: np.ndarray, number: np.ndarray, within: Range
) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of a mean of ``number`` values, NaN for fewer than two.

    It is cut to ``within``, which holds the values.
    """
    enough = number > 1
    freedom = np.where(enough, number - 1, 1)
    quantile = np.where(enough, stdtrit(freedom, (1 + LEVEL) / 2), np.nan)
    half = quantile * sd / np.sqrt(np.maximum(number, 1))
    return np.maximum(mean - half, within[0]), np.minimum(mean + half, within[1])


def t_interval_of(values: np.ndarray, within: Range = ANY) -> tuple[float, float, float]:
    """Return mean, low and high of ``[n]`` values without their NaNs; NaN for none."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return float("nan"), float("nan"), float("nan")
    sd = values.std(ddof=1) if len(values) > 1 else np.nan
    lo, hi = t_interval(np.array(values.mean()), np.array(sd), np.array(len(values)), within)
    return float(values.mean()), float(lo), float(hi)


def sd_interval(sd: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of a standard deviation of ``number`` values by χ²; NaN below 2."""
    freedom = np.where(number > 1, number - 1, np.nan)
    upper, lower = chdtri(freedom, (1 - LEVEL) / 2), chdtri(freedom, (1 + LEVEL) / 2)
    return sd * np.sqrt(freedom / upper), sd * np.sqrt(freedom / lower)


def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of a share of ``n`` (Wilson 1927); NaN for n = 0."""
    z = float(ndtri((1 + LEVEL) / 2))
    n = np.where(n > 0, n, np.nan)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return centre - half, centre + half
