"""The map: what each clipping rule kept of each slice, how often it clipped, the recall lost, ECE.

Rows are rules and thresholds, columns are slices. Kept leads, for the clip fraction saturates.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis import style
from analysis.figures.caption import caption
from analysis.figures.layout import ABOUT, LEADING, MARGIN, Layout
from analysis.figures.map_view import Family, MapView, map_view
from analysis.figures.page import FAMILY, Block, lay_out
from analysis.figures.panels import Panel
from analysis.figures.sentences import joined
from analysis.figures.tiles import draw_names, draw_tiles
from analysis.lettering import fonts_for, one_line, wrap

_APART = 0.015
"""Inches by which a second line stands lower: else it touches what hangs below the first."""


def figure(table: pd.DataFrame, left_out: str = "") -> Figure:
    """Draw the map of the cells of one data set and one model.

    ``table`` is ``read_cells(...).table``, or any part of it that holds whole cells. Every family
    (cells that agree in data, model, slices and owners) has panels of its own, below a heading.
    Panels stand below or beside each other, whichever is larger when printed on a page.

    ``left_out`` says which cells ``table`` lacks, for the caption.

    Raises ``ValueError``: no cells, or cells of more than one data set or model.
    """
    with style.drawing():
        view = map_view(table)
        return _draw(view, joined([caption(table, view).removesuffix("."), left_out]))


def _draw(view: MapView, words: str) -> Figure:
    page = lay_out(view)
    wide, high = page.size
    notes = "\n".join(wrap(note, wide - 2 * MARGIN, style.TEXT) for note in view.notes)
    text = wrap(words, wide - 2 * MARGIN, style.TEXT)
    below = _high(notes, style.TEXT), _high(text, style.TEXT)
    drawn = style.Page(figsize=(wide, high + sum(below)), facecolor=style.PAPER)
    every = [panel for family in view.families for panel in family.panels]
    for block, family in zip(page.blocks, view.families, strict=True):
        _heading(drawn, block)
        _family(drawn, block, family, every)
    _below(drawn, high, notes, style.TEXT, "notes")
    _below(drawn, high + below[0], text, style.TEXT, "caption")
    return drawn


def _family(drawn: Figure, block: Block, family: Family, every: Sequence[Panel]) -> None:
    """Draw a family; ``every`` panel of the map is asked for what its scale has to say."""
    layout = block.layout
    for place, panel in enumerate(family.panels):
        x, y = layout.corner(place)
        corner = (x, y + block.top)
        axes = _axes(drawn, corner, layout.grid.size)
        draw_tiles(axes, layout.grid, panel, family.row_seeds.tolist())
        draw_names(axes, layout.grid, family.columns, layout.names)
        _title(axes, layout, place, f"{'abcd'[place]}  {panel.title}")
        if place == 0 or layout.labels_each:
            _row_labels(axes, layout, family)
        else:
            axes.set_yticks([])
        if layout.bars[place]:
            above = any(p.above.any() for p in every if p.title == panel.title)
            _bar(drawn, (x, corner[1] + layout.grid.size[1]), panel, above=above)


def _heading(drawn: Figure, block: Block) -> None:
    if not block.heading:
        return
    wide, high = drawn.get_size_inches()
    x, y = MARGIN / wide, 1 - block.heading_top / high
    drawn.text(x, y, block.heading, va="top", fontsize=FAMILY, fontweight="bold", color=style.INK,
               linespacing=1.25, parse_math=False, fontfamily=list(fonts_for(block.heading)),
               gid="heading")  # fmt: skip
    y -= (block.heading.count("\n") + 1) * LEADING * FAMILY / high
    drawn.text(x, y, block.framed, va="top", fontsize=style.TEXT, color=style.TAIL,
               linespacing=1.25, parse_math=False, fontfamily=list(fonts_for(block.framed)),
               gid="framed")  # fmt: skip


def _high(text: str, points: float) -> float:
    return (text.count("\n") + 1) * LEADING * points + 2 * MARGIN if text else 0.0


def _below(drawn: Figure, top: float, text: str, points: float, gid: str) -> None:
    wide, high = drawn.get_size_inches()
    if text:
        drawn.text(MARGIN / wide, 1 - (top + MARGIN) / high, text, va="top", fontsize=points,
                   color=style.INK, linespacing=1.25, parse_math=False,
                   fontfamily=list(fonts_for(text)), gid=gid)  # fmt: skip


def _axes(drawn: Figure, corner: tuple[float, float], size: tuple[float, float]) -> Axes:
    """Add axes whose data are inches, y down; ``corner`` is counted from the figure's top left."""
    wide, high = drawn.get_size_inches()
    place = (corner[0] / wide, 1 - (corner[1] + size[1]) / high, size[0] / wide, size[1] / high)
    axes = drawn.add_axes(place)
    axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
    axes.set_frame_on(False)
    axes.tick_params(length=0)
    return axes


def _title(axes: Axes, layout: Layout, panel: int, title: str) -> None:
    high = layout.above_names(panel)
    axes.text(0, -high, layout.abouts[panel], va="top", fontsize=ABOUT, color=style.MUTED,
              linespacing=1.2)  # fmt: skip
    axes.set_title(title, loc="left", y=1.0, pad=high * 72 + 2.5, fontweight="bold",
                   fontsize=style.HEADING, color=style.INK)  # fmt: skip


def _row_labels(axes: Axes, layout: Layout, family: Family) -> None:
    grid = layout.grid
    middle = [top + grid.tile[1] / 2 for top in grid.top]
    axes.set_yticks(middle, [row.label for row in family.rows], fontsize=style.TEXT)
    for row, y, label in zip(family.rows, middle, axes.get_yticklabels(), strict=True):
        label.set(color=style.INK, va="bottom" if row.detail else "center_baseline")
        if row.detail:
            _left_text(axes, 0.05, y + _APART, row.detail, style.SMALL, ha="right", va="top")
    for _, run in groupby(enumerate(family.rows), key=lambda pair: (pair[1].group, pair[1].note)):
        place, row = next(run)
        bold: dict[str, Any] = {"fontweight": "bold", "color": style.INK, "ha": "left"}
        bold["va"] = "bottom" if row.note else "center_baseline"
        _left_text(axes, layout.labels, middle[place], row.group, style.TEXT, **bold)
        if row.note:
            _left_text(axes, layout.labels, middle[place] + _APART, row.note, style.SMALL, va="top")
    _left_text(axes, 0.05, -0.03, "n test", style.SMALL, ha="right", va="bottom")


def _left_text(
    axes: Axes, distance: float, y: float, text: str, points: float, **properties: Any
) -> None:
    text = one_line(text)
    looks: dict[str, Any] = {"color": style.MUTED, "parse_math": False, "fontsize": points}
    axes.text(-distance, y, text, fontfamily=list(fonts_for(text)), **(looks | properties))


def _bar(
    drawn: Figure, corner: tuple[float, float], panel: Panel, *, above: bool, gap: float = 0.1
) -> None:
    wide = min(1.6, float(drawn.axes[-1].get_xlim()[1]) / 2)
    axes = _axes(drawn, (corner[0], corner[1] + gap), (wide, 0.07))
    norm = Normalize(*panel.limits)
    bar = drawn.colorbar(ScalarMappable(norm, panel.cmap), cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    low, high = panel.limits
    ticks = [low, (low + high) / 2, high]
    bar.set_ticks(ticks, labels=[f"{tick:.2g}".replace("-", "−") for tick in ticks])
    bar.ax.tick_params(labelsize=style.SMALL, length=1.5, pad=1, color=style.EDGE)
    most = f"{high:.2g}"
    words = f"{panel.dark}; ▲ above {most}" if above else panel.dark
    axes.text(1.07, 0.5, words, transform=axes.transAxes, va="center_baseline",
              fontsize=style.SMALL, color=style.MUTED)  # fmt: skip
