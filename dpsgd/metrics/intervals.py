"""95 % intervals: Wilson for shares, percentile bootstrap for the rest."""

from __future__ import annotations

import numpy as np
from scipy import stats

RESAMPLES = 400
LOW, HIGH = 2.5, 97.5


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share; raises ValueError for n = 0."""
    interval = stats.binomtest(int(successes), int(n)).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def resample_weights(n: int, generator: np.random.Generator) -> np.ndarray:
    """Return bootstrap counts ``[RESAMPLES, n]`` float64: how often each row was drawn."""
    return generator.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)


def percentiles(values: np.ndarray) -> tuple[float, float]:
    """Return the central 95 % of ``values``, ignoring NaN; NaN if nothing is left."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return float("nan"), float("nan")
    low, high = np.percentile(values, [LOW, HIGH])
    return float(low), float(high)
