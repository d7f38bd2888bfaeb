"""A share of two noised counts, with the interval that the known noise gives."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

Z = float(special.ndtri(0.975))


class Share(NamedTuple):
    """An estimate in [0, 1] with its 95 % interval. NaN and [0, 1]: nothing can be said."""

    value: float
    lo: float
    hi: float


NOTHING = Share(math.nan, 0.0, 1.0)


def share_of(first: float, second: float, variance: float) -> Share:
    """Return first/(first + second) for two counts with independent N(0, ``variance``) noise.

    Fieller's interval (J. R. Stat. Soc. B 16, 1954): every θ in [0, 1] with
    ((1−θ)·first − θ·second)² ≤ z²·variance·((1−θ)² + θ²). It holds the true share of the counts
    with probability 0.95 or more, however small they are. A count is never negative: a noised one
    below 0 counts as 0, which brings the left side nearer to 0 at every θ in between, and so only
    widens the interval. Where the noised sum is not 1.96 of its standard deviations above 0, the
    counts are too small to say anything.
    """
    first, second = max(first, 0.0), max(second, 0.0)
    noise = Z * Z * variance
    whole = first + second
    if whole * whole <= 2 * noise:
        return NOTHING
    # θ²·a − 2θ·b + c ≤ 0, whose middle b/a lies between its ends.
    a, b, c = whole * whole - 2 * noise, first * whole - noise, first * first - noise
    half = math.sqrt(max(b * b - a * c, 0.0)) / a
    low, high = (float(np.clip(b / a + side * half, 0.0, 1.0)) for side in (-1, 1))
    value = first / whole
    return Share(value, min(low, value), max(high, value))
