"""Marks that several figures share: a value with its interval, side by side for several lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.interval import ANY, Range, t_interval_of

FEWEST = 3
"""Seeds from which on an interval over them is drawn. That of two is 12.7 times as wide as they are
apart, and fills a panel: two seeds tell more when they are drawn themselves.
"""


def drawn_interval(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return ``lo`` and ``hi`` of ``over_conditions``; NaN for fewer than ``FEWEST`` seeds."""
    enough = rows["seeds"].to_numpy(float) >= FEWEST
    low, high = (np.where(enough, rows[name].to_numpy(float), np.nan) for name in ("lo", "hi"))
    return low, high


def drawn_interval_of(values: np.ndarray, within: Range = ANY) -> tuple[float, float, float]:
    """Return what ``t_interval_of`` does; without an interval for fewer than ``FEWEST`` values."""
    mean, low, high = t_interval_of(values, within)
    return (mean, low, high) if np.isfinite(values).sum() >= FEWEST else (mean, np.nan, np.nan)


def seed_dots(axes: Axes, at: np.ndarray, values: np.ndarray, colour: str) -> None:
    """Draw a dot a seed."""
    axes.plot(at, values, linestyle="", marker=".", markersize=2.6, gid="seeds", color=colour,
              alpha=0.75, zorder=2.5)  # fmt: skip


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
