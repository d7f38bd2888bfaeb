"""Logarithmic axes with ticks that people read: 0.1, 0.3, 1, never 10⁻¹ alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from analysis.wording import plain_number

_STEPS = (
    (1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)


def thresholds(axes: Axes, norms: Sequence[float], right: float = 1.5, most: int = 6) -> None:
    """Make x logarithmic, with ticks at the thresholds themselves, at most ``most`` of them.

    ``right`` is how much room, as a factor, there is beyond the largest.
    """
    norms = sorted({norm for norm in norms if math.isfinite(norm) and norm > 0})
    if not norms:
        axes.set_xticks([])
        return
    axes.set(xscale="log", xlim=(norms[0] / 1.5, norms[-1] * right))
    _ticks(axes.xaxis, norms[:: 1 + (len(norms) - 1) // most])


def logarithmic(axis: Axis, limits: tuple[float, float], most: int = 6) -> None:
    """Put ``most`` plain ticks at most on a logarithmic axis that shows ``limits``."""
    low, high = limits
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks: list[float] = []
    for steps in _STEPS:
        every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        ticks = [tick for tick in every if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) <= most:
            break
    _ticks(axis, ticks[:: 1 + (len(ticks) - 1) // most] if ticks else [low, high])


def _ticks(axis: Axis, ticks: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(float(f"{value:.3g}"))))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
