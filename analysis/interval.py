"""Means over seeds with their interval, and intervals of shares."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import chdtri, ndtri, stdtrit

LEVEL = 0.95


def with_interval(means: pd.DataFrame) -> pd.DataFrame:
    """Return what ``over_seeds`` returned with ``lo`` and ``hi``, the 95 % interval of the mean by
    Student's t over seeds; NaN for one seed.
    """
    lo, hi = t_interval(
        means["mean"].to_numpy(float), means["sd"].to_numpy(float), means["seeds"].to_numpy(float)
    )
    return means.assign(lo=lo, hi=hi)


def t_interval(
    mean: np.ndarray, sd: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of a mean of ``number`` values, NaN for fewer than two."""
    enough = number > 1
    freedom = np.where(enough, number - 1, 1)
    quantile = np.where(enough, stdtrit(freedom, (1 + LEVEL) / 2), np.nan)
    half = quantile * sd / np.sqrt(np.maximum(number, 1))
    return mean - half, mean + half


def t_interval_of(values: np.ndarray) -> tuple[float, float, float]:
    """Return mean, low and high of ``[n]`` values without their NaNs; NaN for none."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return float("nan"), float("nan"), float("nan")
    sd = values.std(ddof=1) if len(values) > 1 else np.nan
    lo, hi = t_interval(np.array(values.mean()), np.array(sd), np.array(len(values)))
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
