"""Where the families of a map stand on its page, one below the other, each with a heading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis import style
from analysis.figures.layout import (
    LEADING,
    MARGIN,
    PAGE,
    Layout,
    lay_out_family,
    row_labels,
)
from analysis.figures.map_view import Family, MapView
from analysis.lettering import one_line, wrap
from analysis.slices import SliceColumn

FAMILY = 9.0
_ABOVE, _BELOW = 0.22, 0.1


@dataclass(frozen=True)
class Block:
    """A family's panels and heading; ``top`` and ``heading_top`` count from the figure's top."""

    layout: Layout
    heading: str
    framed: str
    heading_top: float
    top: float


@dataclass(frozen=True)
class PageLayout:
    """The blocks of all families, and the size of the figure without notes and caption."""

    blocks: tuple[Block, ...]
    size: tuple[float, float]

    @property
    def print_scale(self) -> float:
        """By how much the figure shrinks to fit on a page; families, and panels that stand below
        one another, may go on to the next.
        """
        high = self.blocks[0].layout.together if len(self.blocks) == 1 else 0.0
        return PAGE[0] / max(PAGE[0], self.size[0], high * PAGE[0] / PAGE[1])


def lay_out(view: MapView) -> PageLayout:
    """Put panels below or beside each other, whichever prints larger, or else is less high."""
    pages = [_page(view, beside) for beside in (False, True)]
    return max(pages, key=lambda page: (page.print_scale, -page.size[1]))


def framed(columns: Sequence[SliceColumn]) -> str:
    """Return which slices have a frame: ``rarity tail, label 8``; empty where none has."""
    return ", ".join(f"{c.kind} {one_line(c.name)}" for c in columns if c.tail)


def _page(view: MapView, beside: bool) -> PageLayout:
    labels = row_labels(view)
    rows = [row for family in view.families for row in family.rows]
    tall = view.spread or any(row.note or row.detail for row in rows)
    layouts = [
        lay_out_family(family, view.families[:place], labels, tall=tall, beside=beside)
        for place, family in enumerate(view.families)
    ]
    wide = max(layout.size[0] for layout in layouts)
    blocks: list[Block] = []
    y = 0.0
    for place, (family, layout) in enumerate(zip(view.families, layouts, strict=True)):
        heading, words = _heading(family, wide) if len(layouts) > 1 else ("", "")
        start = y + (_ABOVE if heading and place else 0.0) + (MARGIN if heading else 0.0)
        room = (heading.count("\n") + 1) * LEADING * FAMILY if heading else 0.0
        room += (words.count("\n") + 1) * LEADING * style.TEXT + _BELOW if words else 0.0
        blocks.append(Block(layout, heading, words, start, start + room))
        y = start + room + layout.size[1]
    return PageLayout(tuple(blocks), (wide, y))


def _heading(family: Family, wide: float) -> tuple[str, str]:
    name = one_line(", ".join(family.heading))
    tail = framed(family.columns)
    words = f"framed: {tail}" if tail else "no tail"
    inches = wide - 2 * MARGIN
    return wrap(name, inches, FAMILY, "bold"), wrap(words, inches, style.TEXT)
