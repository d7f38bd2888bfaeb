"""Where everything on the map stands, in inches, and whether its panels stand side by side."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analysis import style
from analysis.figures.map_view import MapView
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
GAP = 0.3
ABOUT = 6.5
LEADING = 1.25 / 72

_PAGE = (7.2, 9.6)
_TILE_WIDTH = (0.39, 0.6)
_NARROWEST_PANEL = 1.75
_LABELS_FAR_AWAY = 4.0
_ROWS_TO_NEXT_GROUP, _ROWS_AT_MOST, _ROWS_LEFT_ALONE = 18, 26, 6


@dataclass(frozen=True)
class Layout:
    """Sizes in inches. ``labels`` is the room for row labels, ``overhang`` that for slanted names.

    ``abouts`` are the panels' explanations, broken into lines.
    """

    grid: Grid
    names: tuple[SliceName, ...]
    abouts: tuple[str, ...]
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

    @property
    def above_names(self) -> float:
        """How far above the tiles the explanations start."""
        lines = 1 + max(about.count("\n") for about in self.abouts)
        return self.above_tiles + LEADING * ABOUT * lines - 0.02

    @property
    def header(self) -> float:
        """Room above the tiles, with title and explanation."""
        return self.above_names + 0.02 + 1.2 * LEADING * style.HEADING

    @property
    def step(self) -> tuple[float, float]:
        """From one panel to the next when beside each other, and when below each other."""
        wide = self.grid.size[0] + self.overhang + (self.labels if self.labels_each else 0.0)
        return wide + GAP, self.header + self.grid.size[1] + BAR

    @property
    def size(self) -> tuple[float, float]:
        """Size of the figure without its caption."""
        one = self.labels + self.grid.size[0] + self.overhang
        across, down = (2, 1) if self.beside else (0, 3)
        return one + across * self.step[0] + 2 * MARGIN, MARGIN + down * self.step[1]

    @property
    def print_scale(self) -> float:
        """By how much the figure shrinks to fit on a page."""
        return min(1.0, _PAGE[0] / self.size[0], _PAGE[1] / self.size[1])

    def corner(self, panel: int) -> tuple[float, float]:
        """Top left corner of the tiles of a panel, from the top left of the figure."""
        across, down = (panel, 0) if self.beside else (0, panel)
        x = MARGIN + self.labels + across * self.step[0]
        return x, MARGIN + self.header + down * self.step[1]


def lay_out(view: MapView) -> Layout:
    """Put the panels below or beside each other, whichever prints larger on a page."""
    return max((_layout(view, beside) for beside in (False, True)), key=lambda it: it.print_scale)


def label_widths(view: MapView) -> tuple[float, float]:
    """Return the width of the widest group name or note, and of the widest label of one row."""
    groups = [width(one_line(row.group), style.TEXT, "bold") for row in view.rows]
    notes = [width(row.note, style.SMALL) for row in view.rows]
    labels = [width(row.label, style.TEXT) for row in view.rows]
    details = [width(one_line(row.detail), style.SMALL) for row in view.rows if row.detail]
    return max(groups + notes), max([*labels, *details, width("n test", style.SMALL)])


def _layout(view: MapView, beside: bool) -> Layout:
    labels = sum(label_widths(view)) + 0.2
    two_lines = view.spread or any(row.note or row.detail for row in view.rows)
    kinds = [(column.kind, column.heading) for column in view.columns]
    gaps = 0.09 * (len(set(kinds)) - 1)
    free = _PAGE[0] - labels - 2 * MARGIN
    room = (free - 2 * GAP) / 3 if beside else free
    narrow, broad = _TILE_WIDTH
    wide = min(broad, max(narrow, (room - gaps) / len(kinds)))
    tile = (max(wide, (_NARROWEST_PANEL - gaps) / len(kinds)), 0.235 if two_lines else 0.2)
    names = tuple(slice_name(column, tile[0] - 0.02) for column in view.columns)
    left = _edges(kinds, tile[0], 0.09, {})
    groups = [(row.group, row.note) for row in view.rows]
    again = dict.fromkeys(_repeats(groups), max(name.rise for name in names) + 0.1)
    grid = Grid(left, _edges(groups, tile[1], 0.07, again), tile, tuple(again))
    ends = [x + tile[0] / 2 + name.reach for x, name in zip(left, names, strict=True)]
    overhang = max(0.0, max(ends) - grid.size[0])
    abouts = tuple(wrap(panel.about, grid.size[0], ABOUT) for panel in view.panels)
    return Layout(grid, names, abouts, labels, overhang, beside)


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
