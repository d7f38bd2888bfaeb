"""Where the panels of a family stand, in inches, with their row labels and names of slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analysis import style
from analysis.figures.map_view import Family, MapView
from analysis.figures.tiles import (
    KIND_LINE,
    N_LINE,
    Grid,
    SliceName,
    slice_name,
)
from analysis.lettering import one_line, width, wrap

MARGIN = 0.08
BAR = 0.4
_NO_BAR = 0.14
GAP = 0.3
ABOUT = 6.5
LEADING = 1.25 / 72

PAGE = (7.2, 9.6)
_TILE_WIDTH = (0.39, 0.6)
_NARROWEST_PANEL = 1.75
_LABELS_FAR_AWAY = 4.0
_ROWS_TO_NEXT_GROUP, _ROWS_AT_MOST, _ROWS_LEFT_ALONE = 18, 26, 6


@dataclass(frozen=True)
class Layout:
    """Sizes in inches. ``labels`` is the room for row labels, ``overhang`` that for slanted names.

    ``abouts`` are the panels' explanations, broken into lines; ``bars`` says which panels have a
    scale of colours below them.
    """

    grid: Grid
    names: tuple[SliceName, ...]
    abouts: tuple[str, ...]
    bars: tuple[bool, ...]
    labels: float
    overhang: float
    beside: bool

    @property
    def labels_each(self) -> bool:
        """Whether every panel has row labels of its own."""
        return not self.beside or self.grid.size[0] > _LABELS_FAR_AWAY

    @property
    def above_tiles(self) -> float:
        """Room for n, the names of the slices and their kinds."""
        kinds = KIND_LINE if len(self.names) > 1 else 0.0
        return N_LINE + max(name.rise for name in self.names) + kinds + 0.06

    def above_names(self, panel: int) -> float:
        """How far above a panel's tiles its explanation starts."""
        abouts = self.abouts if self.beside else self.abouts[panel : panel + 1]
        lines = max(about.count("\n") + 1 if about else 0 for about in abouts)
        return self.above_tiles + LEADING * ABOUT * lines - 0.02

    @property
    def size(self) -> tuple[float, float]:
        """Size of the family's block, without its heading."""
        last = len(self.abouts) - 1
        x, y = self.corner(last)
        return x + self.grid.size[0] + self.overhang + MARGIN, y + self._from_tiles_on(last)

    @property
    def together(self) -> float:
        """Height of what no page can part: the highest panel."""
        places = range(len(self.abouts))
        return MARGIN + max(self._header(place) + self._from_tiles_on(place) for place in places)

    def corner(self, panel: int) -> tuple[float, float]:
        """Top left corner of the tiles of a panel, from the top left of the block."""
        x, y = MARGIN + self.labels, MARGIN + self._header(0)
        if self.beside:
            wide = self.grid.size[0] + self.overhang + (self.labels if self.labels_each else 0.0)
            return x + panel * (wide + GAP), y
        above = range(panel)
        return x, y + sum(self._from_tiles_on(place) + self._header(place + 1) for place in above)

    def _header(self, panel: int) -> float:
        """Room above the tiles, with title and explanation."""
        return self.above_names(panel) + 0.02 + 1.2 * LEADING * style.HEADING

    def _from_tiles_on(self, panel: int) -> float:
        """From the top of a panel's tiles to the end of the panel."""
        bars = self.bars if self.beside else self.bars[panel : panel + 1]
        return self.grid.size[1] + (BAR if any(bars) else _NO_BAR)


def row_labels(view: MapView) -> float:
    """Return the room for row labels, the same for every family."""
    return sum(label_widths(view)) + 0.2


def label_widths(view: MapView) -> tuple[float, float]:
    """Return the width of the widest group name or note, and of the widest label of one row."""
    rows = [row for family in view.families for row in family.rows]
    groups = [width(one_line(row.group), style.TEXT, "bold") for row in rows]
    notes = [width(row.note, style.SMALL) for row in rows]
    labels = [width(row.label, style.TEXT) for row in rows]
    details = [width(one_line(row.detail), style.SMALL) for row in rows if row.detail]
    return max(groups + notes), max([*labels, *details, width("n test", style.SMALL)])


def lay_out_family(
    family: Family, above: Sequence[Family], labels: float, *, tall: bool, beside: bool
) -> Layout:
    """Put a family's panels below or beside each other; ``tall`` tiles have room for two lines.

    What the families ``above`` it have explained, with their scales, is not said again.
    """
    said = [panel for other in above for panel in other.panels]
    explained, titles = {panel.about for panel in said}, {panel.title for panel in said}
    kinds = [(column.kind, column.heading) for column in family.columns]
    gaps = 0.09 * (len(set(kinds)) - 1)
    free = PAGE[0] - labels - 2 * MARGIN
    beside_it = len(family.panels)
    room = (free - (beside_it - 1) * GAP) / beside_it if beside else free
    narrow, broad = _TILE_WIDTH
    wide = min(broad, max(narrow, (room - gaps) / len(kinds)))
    tile = (max(wide, (_NARROWEST_PANEL - gaps) / len(kinds)), 0.25 if tall else 0.2)
    names = tuple(slice_name(column, tile[0] - 0.02) for column in family.columns)
    left = _edges(kinds, tile[0], 0.09, {})
    groups = [(row.group, row.note) for row in family.rows]
    again = dict.fromkeys(_repeats(groups), max(name.rise for name in names) + 0.1)
    grid = Grid(left, _edges(groups, tile[1], 0.07, again), tile, tuple(again))
    ends = [x + tile[0] / 2 + name.reach for x, name in zip(left, names, strict=True)]
    overhang = max(0.0, max(ends) - grid.size[0])
    abouts = ["" if panel.about in explained else panel.about for panel in family.panels]
    return Layout(
        grid=grid,
        names=names,
        abouts=tuple(wrap(about, grid.size[0], ABOUT) for about in abouts),
        bars=tuple(panel.title not in titles for panel in family.panels),
        labels=labels,
        overhang=overhang,
        beside=beside,
    )


def _edges(
    groups: list[Any], step: float, gap: float, wider: dict[int, float]
) -> tuple[float, ...]:
    edges = [0.0]
    for place, (before, after) in enumerate(pairwise(groups), start=1):
        apart = gap if after != before else 0.0
        edges.append(edges[-1] + step + wider.get(place, apart))
    return tuple(edges)


def _repeats(groups: list[Any]) -> list[int]:
    """Return the rows above which names are repeated, at the start of a group if one is near."""
    repeats, last = [], 0
    for place, (before, after) in enumerate(pairwise(groups), start=1):
        rows = place - last
        enough = _ROWS_TO_NEXT_GROUP if before != after else _ROWS_AT_MOST
        if rows >= enough and len(groups) - place >= _ROWS_LEFT_ALONE:
            repeats.append(place)
            last = place
    return repeats
