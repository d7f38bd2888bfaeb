"""Logarithmic axes with ticks that people read: 0.1, 0.3, 1, never 10⁻¹ alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from analysis import style
from analysis.wording import plain_number

_FAR, _GAP = 3.0, 0.7
"""Decades from which on an axis is cut, and as how many the cut is drawn."""
_TINY = 1e-300
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

    ``right`` is how much room, as a factor, there is beyond the largest. Where one threshold lies
    far from its neighbour (1e-30 below 0.1), the axis is cut between them, and a mark says so.
    """
    norms = sorted({norm for norm in norms if math.isfinite(norm) and norm > 0})
    if not norms:
        axes.set_xticks([])
        return
    cuts = far_apart(norms)
    if cuts:
        shown, places = _cut(norms, cuts)
        axes.set_xscale("function", functions=(
            lambda x: _piecewise(np.log10(np.maximum(x, _TINY)), shown, places),
            lambda x: 10.0 ** _piecewise(x, places, shown)))  # fmt: skip
    else:
        axes.set_xscale("log")
    axes.set_xlim(norms[0] / 1.5, norms[-1] * right)
    few = norms[:: 1 + (len(norms) - 1) // most]
    _ticks(axes.xaxis, sorted({*few, *(end for cut in cuts for end in cut)}) if cuts else few)
    for low, high in cuts:
        axes.text(math.sqrt(low) * math.sqrt(high), 0, "//", transform=axes.get_xaxis_transform(),
                  ha="center", va="center", fontsize=style.HEADING, color=style.INK, gid="cut",
                  bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.5})  # fmt: skip


def far_apart(norms: Sequence[float]) -> list[tuple[float, float]]:
    """Return the neighbours among sorted thresholds between which an axis is cut.

    They are over three decades apart, and there are others that such a gap would squeeze together.
    """
    if len(norms) < 3:
        return []
    return [(low, high) for low, high in pairwise(norms)
            if math.log10(high) - math.log10(low) > _FAR]  # fmt: skip


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


def _cut(
    norms: Sequence[float], cuts: Sequence[tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return decades and where they stand on an axis whose cuts are ``_GAP`` wide."""
    known = np.log10(norms)
    apart = [_GAP if pair in cuts else step
             for pair, step in zip(pairwise(norms), np.diff(known), strict=True)]  # fmt: skip
    return known, np.concatenate([[0.0], np.cumsum(apart)])


def _piecewise(x: np.ndarray, known: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return linear interpolation that goes on beyond both ends with slope 1."""
    x = np.asarray(x, float)
    inside = np.interp(x, known, places)
    return inside + np.minimum(x - known[0], 0.0) + np.maximum(x - known[-1], 0.0)


def _ticks(axis: Axis, ticks: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(float(f"{value:.3g}"))))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
