"""Numbers and counts in words, the same in figures and on the terminal."""

from __future__ import annotations

import math


def epsilon_text(epsilon: float) -> str:
    """Return ``ε = 3``, with ∞ for infinity and words where it is not stated."""
    if math.isnan(epsilon):
        return "ε not stated"
    return "ε = ∞" if math.isinf(epsilon) else f"ε = {epsilon:g}"


def counted(number: int, noun: str) -> str:
    """Return ``1 cell``, ``2 cells``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain_number(value: float) -> str:
    """Return a number as people write it: ``0.001``, and ``6e-5`` where Python has ``6e-05``."""
    if 1e-3 <= abs(value) < 1e6 or value == 0 or not math.isfinite(value):
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
