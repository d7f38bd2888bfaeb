"""Draw one panel of the map: tiles, their numbers, and the names of the slices above them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Polygon, Rectangle

from analysis import style
from analysis.figures.panels import Panel
from analysis.lettering import break_name, fonts_for, one_line, shorten, width
from analysis.slices import SliceColumn

N_LINE = 0.13
KIND_LINE = 0.15
_LONGEST_NAME, _LONGEST_OF_TWO = 1.1, 1.5
_INTO_GAP = 0.08
_SLANT = math.sin(math.radians(45))


@dataclass(frozen=True)
class Grid:
    """Where tiles stand, in inches from the top left corner of a panel.

    Above the rows ``repeats`` there is room to write the names of the slices again.
    """

    left: tuple[float, ...]
    top: tuple[float, ...]
    tile: tuple[float, float]
    repeats: tuple[int, ...]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the panel."""
        return self.left[-1] + self.tile[0], self.top[-1] + self.tile[1]


@dataclass(frozen=True)
class SliceName:
    """A name as drawn: ``rise`` inches high, ``reach`` inches to the right of its tile's middle."""

    text: str
    slanted: bool
    rise: float
    reach: float


def slice_name(column: SliceColumn, inches: float) -> SliceName:
    """Set a name on one or two lines if it fits above its tile, else slanted."""
    name = one_line(column.short)
    weight = _weight(column)
    line = style.TEXT * 1.25 / 72
    fits = break_name(name, inches, style.TEXT, weight)
    if fits is not None:
        return SliceName(fits, False, line * (fits.count("\n") + 1), inches / 2)
    longest = _LONGEST_OF_TWO if column.kind in ("pair", "bins") else _LONGEST_NAME
    short = shorten(name, longest, style.TEXT)
    run = width(short, style.TEXT, weight) * _SLANT
    return SliceName(short, True, run + line, run + line / 2)


def draw_tiles(axes: Axes, grid: Grid, panel: Panel, seeds_of_row: Sequence[int]) -> None:
    """Fill ``axes`` (in inches, y down) with the tiles of ``panel`` and their numbers."""
    above = panel.above
    for row, top in enumerate(grid.top):
        for column, left in enumerate(grid.left):
            value = float(panel.mean[row, column])
            face = _face(panel, row, value)
            empty = math.isnan(value)
            tile = Rectangle((left, top), *grid.tile, facecolor=face, linewidth=0.5)
            tile.set_edgecolor(style.EDGE if empty or panel.plain[row] else style.PAPER)
            tile.set_hatch("//////" if empty else "")
            axes.add_patch(tile)
            lines = _lines(panel, row, column, seeds_of_row[row])
            ink = style.MUTED if empty else style.ink_on(face)
            _write(axes, grid, (left, top), lines, ink)
            if above[row, column]:
                _mark_above(axes, (left + grid.tile[0], top), ink)


def _mark_above(axes: Axes, corner: tuple[float, float], ink: str) -> None:
    """Put a small triangle into the upper right corner of a tile that is above the scale."""
    x, y = corner[0] - 0.015, corner[1] + 0.065
    places = [(x - 0.055, y), (x, y), (x - 0.0275, y - 0.045)]
    axes.add_patch(Polygon(places, facecolor=ink, linewidth=0, gid="above"))


def draw_names(
    axes: Axes, grid: Grid, columns: Sequence[SliceColumn], names: Sequence[SliceName]
) -> None:
    """Write names, kinds and test n above the tiles, names again in a long map; frame the tail."""
    axes.set_xticks([])
    _names(axes, grid, columns, names, N_LINE + 0.03)
    for row in grid.repeats:
        _names(axes, grid, columns, names, 0.05 - grid.top[row])
    for left, column in zip(grid.left, columns, strict=True):
        axes.text(left + grid.tile[0] / 2, -0.03, _counted(column), ha="center", va="bottom",
                  fontsize=style.SMALL, color=style.MUTED)  # fmt: skip
    _kinds(axes, grid, columns, max(name.rise for name in names))
    _frame_tail(axes, grid, columns)


def number(value: float, signed: bool) -> str:
    """Return two decimals without the leading zero: ``.42``, ``−.03``, ``1.00``; ``–`` for NaN."""
    if math.isnan(value):
        return "–"
    digits = f"{abs(value):.2f}".removeprefix("0")
    if not signed and value >= 0:
        return digits
    sign = "" if digits == ".00" else "−" if value < 0 else "+"
    return sign + digits


def _face(panel: Panel, row: int, value: float) -> Any:
    if math.isnan(value):
        return to_rgba(style.PAPER)
    if panel.plain[row]:
        return to_rgba(style.PLAIN)
    return style.shade(panel.cmap, value, panel.limits)


def _lines(panel: Panel, row: int, column: int, of_row: int) -> tuple[str, str]:
    value, sd = float(panel.mean[row, column]), float(panel.sd[row, column])
    seeds = int(panel.seeds[row, column])
    below = "" if math.isnan(sd) else f"±{number(sd, signed=False)}"
    if 0 < seeds < of_row:
        below = f"{below} ({seeds})".strip()
    return number(value, panel.signed and not panel.plain[row]), below


def _write(
    axes: Axes, grid: Grid, corner: tuple[float, float], lines: tuple[str, str], ink: str
) -> None:
    x, y = corner[0] + grid.tile[0] / 2, corner[1] + grid.tile[1] / 2
    shift = 0.05 if lines[1] else 0.0
    axes.text(x, y - shift, lines[0], ha="center", va="center_baseline", fontsize=style.TEXT,
              color=ink)  # fmt: skip
    if lines[1]:
        axes.text(x, y + 0.063, lines[1], ha="center", va="center_baseline",
                  fontsize=style.SMALL, color=ink)  # fmt: skip


def _names(
    axes: Axes, grid: Grid, columns: Sequence[SliceColumn], names: Sequence[SliceName], above: float
) -> None:
    for left, name, column in zip(grid.left, names, columns, strict=True):
        looks: dict[str, Any] = {"ha": "center", "va": "baseline", "linespacing": 1.0}
        if name.slanted:
            looks |= {"rotation": 45, "rotation_mode": "anchor", "ha": "left"}
        looks |= {"color": style.TAIL if column.tail else style.INK, "fontweight": _weight(column)}
        axes.text(left + grid.tile[0] / 2, -above, name.text, fontsize=style.TEXT, parse_math=False,
                  fontfamily=list(fonts_for(name.text)), **looks)  # fmt: skip


def _kinds(axes: Axes, grid: Grid, columns: Sequence[SliceColumn], rise: float) -> None:
    y = -(N_LINE + rise + 0.05)
    for (_, heading), run in groupby(
        enumerate(columns), key=lambda pair: (pair[1].kind, pair[1].heading)
    ):
        places = [place for place, _ in run]
        left, right = grid.left[places[0]], grid.left[places[-1]] + grid.tile[0]
        if heading:
            text = shorten(one_line(heading), right - left + _INTO_GAP, style.SMALL)
            axes.plot([left, right], [y, y], color=style.EDGE, linewidth=0.6, clip_on=False)
            axes.text((left + right) / 2, y - 0.015, text, ha="center", va="bottom",
                      fontsize=style.SMALL, color=style.MUTED, parse_math=False,
                      fontfamily=list(fonts_for(text)))  # fmt: skip


def _frame_tail(axes: Axes, grid: Grid, columns: Sequence[SliceColumn]) -> None:
    for (tail, _), run in groupby(
        enumerate(columns), key=lambda pair: (pair[1].tail, pair[1].kind)
    ):
        places = [place for place, _ in run]
        if tail:
            left = grid.left[places[0]]
            wide = grid.left[places[-1]] + grid.tile[0] - left
            frame = Rectangle((left, 0), wide, grid.size[1], fill=False, edgecolor=style.TAIL)
            frame.set(linewidth=1.3, clip_on=False, zorder=4)
            axes.add_patch(frame)


def _weight(column: SliceColumn) -> str:
    return "bold" if column.tail else "normal"


def _counted(column: SliceColumn) -> str:
    low, high = _short(column.n_low), _short(column.n_high)
    return high if low == high else f"{low}–{high}"


def _short(n: int) -> str:
    if n < 10_000:
        return str(n)
    return f"{n / 1e3:.0f}k" if n < 999_500 else f"{n / 1e6:.1f}M"
