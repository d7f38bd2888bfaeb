"""95 % intervals: Wilson for shares, percentile bootstrap for the rest."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

RESAMPLES = 400
LOW, HIGH = 2.5, 97.5


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return the score interval of a share (Wilson, JASA 1927); raises ValueError for n = 0.

    ``scipy.stats.binomtest`` gives the same numbers, but works out a p-value first, which takes
    longer than all else of an evaluation.
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} of {n} is no share")
    z = float(special.ndtri(HIGH / 100))
    share = successes / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    low, high = ((centre + side * half) / (1 + z * z / n) for side in (-1, 1))
    # Exact at the ends, where rounding would leave the interval short of its own share.
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def resample_weights(n: int, generator: np.random.Generator) -> np.ndarray:
    """Return bootstrap counts ``[RESAMPLES, n]`` float64: how often each row was drawn."""
    drawn = generator.integers(n, size=(RESAMPLES, n)) + n * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * n)
    return counts.reshape(RESAMPLES, n).astype(np.float64)


def bootstrap_interval(resampled: np.ndarray, n: int) -> tuple[float, float]:
    """Return the percentile interval of a figure over resamples of ``n`` examples.

    NaN for n = 1: one example drawn again and again is no spread, and not certainty either.
    """
    return percentiles(resampled) if n > 1 else (math.nan, math.nan)


def percentiles(values: np.ndarray) -> tuple[float, float]:
    """Return the central 95 % of ``values``, ignoring NaN; NaN if nothing is left."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return float("nan"), float("nan")
    low, high = np.percentile(values, [LOW, HIGH])
    return float(low), float(high)
