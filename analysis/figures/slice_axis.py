"""Slices along an axis: their names below, n above, the tail shaded and in bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import style
from analysis.figures.tiles import SliceName, slice_name
from analysis.lettering import fonts_for, one_line, shorten
from analysis.slices import SliceColumn

MOST = 22
_GAP = 0.5
_NARROW = 0.36


@dataclass(frozen=True)
class SliceAxis:
    """Slices at the places ``at`` of an axis that is ``inches`` long; ``left_out`` had no room."""

    columns: tuple[SliceColumn, ...]
    at: np.ndarray
    names: tuple[SliceName, ...]
    inches: float
    left_out: int

    @property
    def below(self) -> float:
        """Room in inches below the axis."""
        return max(name.rise for name in self.names) + 0.22

    @property
    def words(self) -> str:
        """How many slices are not drawn, for the caption."""
        told = "slice has" if self.left_out == 1 else "slices have"
        return f"{self.left_out} more {told} no room: see cells.parquet" if self.left_out else ""


def slice_axis(columns: Sequence[SliceColumn], inches: float) -> SliceAxis:
    """Return at most ``MOST`` slices: all, bands and the tail first, then the largest."""
    order = sorted(columns, key=_first)[:MOST]
    shown = tuple(column for column in columns if column in order)
    kinds = [(column.kind, column.heading) for column in shown]
    at = [0.0]
    for before, after in pairwise(kinds):
        at.append(at[-1] + 1 + (_GAP if before != after else 0))
    room = inches / (at[-1] + 1)
    names = tuple(slice_name(column, min(room, 1.2)) for column in shown)
    return SliceAxis(shown, np.array(at), names, inches, len(columns) - len(shown))


def draw_slices(axes: Axes, slices: SliceAxis, n: Sequence[int] | None, *, names: bool) -> None:
    """Prepare ``axes``: shade the tail, write n above and, if asked, names and kinds below.

    ``n`` has an entry a slice; without it the test examples of the slices are taken.
    """
    axes.set_xlim(-0.6, slices.at[-1] + 0.6)
    axes.set_xticks([])
    narrow = slices.inches / (slices.at[-1] + 1) < _NARROW
    for place, (x, column) in enumerate(zip(slices.at, slices.columns, strict=True)):
        if column.tail:
            axes.axvspan(x - 0.5, x + 0.5, color=style.TAIL, alpha=0.09, linewidth=0, zorder=0)
        number = _counted(column, narrow) if n is None else _short(n[place], narrow)
        axes.annotate(number, (x, 1), xycoords=axes.get_xaxis_transform(), xytext=(0, 2),
                      textcoords="offset points", ha="center", va="bottom", gid="n",
                      fontsize=style.TEXT, color=style.MUTED)  # fmt: skip
    axes.annotate("n", (0, 1), xycoords="axes fraction", xytext=(-3, 2), fontsize=style.TEXT,
                  textcoords="offset points", ha="right", va="bottom",
                  color=style.MUTED)  # fmt: skip
    if names:
        _names(axes, slices)


def _names(axes: Axes, slices: SliceAxis) -> None:
    for x, name, column in zip(slices.at, slices.names, slices.columns, strict=True):
        looks: dict[str, Any] = {"ha": "center", "va": "top", "linespacing": 1.0}
        if name.slanted:
            looks |= {"rotation": 45, "rotation_mode": "anchor", "ha": "right"}
        looks |= {"color": style.TAIL if column.tail else style.INK}
        axes.annotate(name.text, (x, 0), xycoords=axes.get_xaxis_transform(), xytext=(0, -3),
                      textcoords="offset points", fontsize=style.TEXT, parse_math=False,
                      fontweight="bold" if column.tail else "normal", gid="slice",
                      fontfamily=list(fonts_for(name.text)), **looks)  # fmt: skip
    rise = max(name.rise for name in slices.names) * 72 + 4
    each = zip(slices.at, slices.columns, strict=True)
    for heading, run in groupby(each, key=lambda pair: pair[1].heading):
        places = [x for x, _ in run]
        if heading:
            room = (places[-1] - places[0] + 1.4) * slices.inches / (slices.at[-1] + 1)
            text = shorten(one_line(heading), room, style.TEXT)
            axes.annotate(text, ((places[0] + places[-1]) / 2, 0), xytext=(0, -rise),
                          xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                          ha="center", va="top", fontsize=style.TEXT, color=style.MUTED,
                          parse_math=False, fontfamily=list(fonts_for(text)))  # fmt: skip


def _first(column: SliceColumn) -> tuple[int, int]:
    leads = column.kind in ("all", "rarity") or column.tail
    return (0 if leads else 1, -column.n_high)


def _counted(column: SliceColumn, narrow: bool) -> str:
    low, high = _short(column.n_low, narrow), _short(column.n_high, narrow)
    return high if low == high else f"{low}–{high}"


def _short(n: int, narrow: bool) -> str:
    if n < (1000 if narrow else 10_000):
        return str(n)
    if n < 9950:
        return f"{n / 1e3:.1f}k"
    return f"{n / 1e3:.0f}k" if n < 999_500 else f"{n / 1e6:.1f}M"
