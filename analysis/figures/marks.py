"""Marks that several figures share: a value with its interval, side by side for several lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes


def offsets(number: int, room: float = 0.62) -> np.ndarray:
    """Return how far from the middle of a slice each of ``number`` marks stands."""
    if number < 2:
        return np.zeros(number)
    step = min(0.26, room / (number - 1))
    return step * (np.arange(number) - (number - 1) / 2)


def estimates(
    axes: Axes,
    at: np.ndarray,
    values: np.ndarray,
    interval: tuple[np.ndarray, np.ndarray],
    looks: dict[str, Any],
    gid: str,
) -> None:
    """Draw values ``[n]`` with their interval where there is one; NaN is left out."""
    low, high = interval
    some = np.isfinite(low) & np.isfinite(high) & np.isfinite(values)
    axes.vlines(at[some], low[some], high[some], color=looks["color"], linewidth=0.9, zorder=2.5)
    axes.plot(at, values, linestyle="", marker=looks["marker"], color=looks["color"],
              markersize=looks.get("markersize", 3.6), zorder=3, gid=gid,
              markerfacecolor=looks.get("markerfacecolor", looks["color"]))  # fmt: skip
