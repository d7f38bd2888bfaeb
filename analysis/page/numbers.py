"""Numbers as they go into the page: 4 significant digits, nothing that JSON lacks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

DIGITS = 4


def rounded(value: float) -> float | int | None:
    """Return a number with 4 significant digits; None for NaN and infinities."""
    number = float(value)
    if not math.isfinite(number):
        return None
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def column(values: Iterable[float] | np.ndarray) -> list[float | int | None]:
    """Return numbers in the order of ``values``, an array row by row."""
    return [rounded(value) for value in np.asarray(values, dtype=float).ravel()]
