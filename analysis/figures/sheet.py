"""A page in inches: panels from its top left, a legend, and the caption below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from analysis import style
from analysis.lettering import fonts_for, one_line, shorten, width, wrap

WIDE = 7.2
"""The width of a figure that spans both columns of a journal's page."""

MARGIN = 0.08
LINE = 1.25 / 72
HEADING = 0.21
"""How far above a row of panels its heading stands, in inches."""
_HANDLE, _BETWEEN = 0.32, 0.16
_EDGE = 0.02
_LONGEST_ENTRY = 3.0


@dataclass(frozen=True)
class Entry:
    """A line of the legend: a name, and how it is drawn: properties of a ``Line2D``, or ``color``
    and ``hatch`` of a bar.
    """

    name: str
    looks: dict[str, Any]


def page(high: float, caption: str, wide: float = WIDE) -> style.Page:
    """Return a page with ``high`` inches for panels and the caption below them."""
    text = wrap(one_line(caption), wide - 2 * MARGIN, style.TEXT)
    below = LINE * style.TEXT * (text.count("\n") + 1) + 2 * MARGIN
    drawn = style.Page(figsize=(wide, high + below), facecolor=style.PAPER)
    drawn.text(MARGIN / wide, 1 - (high + MARGIN) / (high + below), text, va="top",
               fontsize=style.TEXT, color=style.INK, linespacing=1.25, parse_math=False,
               fontfamily=list(fonts_for(text)), gid="caption")  # fmt: skip
    return drawn


def panel(
    drawn: style.Page, corner: tuple[float, float], size: tuple[float, float], title: str = ""
) -> Axes:
    """Add axes; ``corner`` is their top left, in inches from that of the page."""
    wide, high = drawn.get_size_inches()
    x, y = corner
    axes = drawn.add_axes((x / wide, 1 - (y + size[1]) / high, size[0] / wide, size[1] / high))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=style.EDGE, linewidth=0.7)
    axes.tick_params(labelsize=style.TEXT, length=2, width=0.6, color=style.EDGE, pad=2,
                     labelcolor=style.INK)  # fmt: skip
    axes.tick_params(which="minor", length=0)
    axes.grid(axis="y", color=style.GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    if title:
        write_title(axes, title)
    return axes


def write_title(axes: Axes, title: str, pad: float = 4.0) -> None:
    """Write a panel's title above its left edge."""
    axes.set_title(title, loc="left", fontsize=style.HEADING, fontweight="bold", pad=pad,
                   color=style.INK, parse_math=False,
                   fontfamily=list(fonts_for(title)))  # fmt: skip


def write_heading(
    drawn: style.Page, top: float, text: str, *, above: float = HEADING, color: str = style.MUTED
) -> None:
    """Write what a row of panels is of: ``above`` it, whose axes begin ``top`` below the page's
    edge, in inches.
    """
    short = shorten(text, WIDE - 2 * _EDGE, style.HEADING)
    wide, high = drawn.get_size_inches()
    drawn.text(_EDGE / wide, 1 - (top - above) / high, short, va="bottom", color=color,
               fontsize=style.HEADING, fontweight="bold", parse_math=False,
               fontfamily=list(fonts_for(short)), gid="row")  # fmt: skip


def label(axes: Axes, *, x: str = "", y: str = "") -> None:
    """Name the axes, with their units."""
    axes.set_xlabel(x, fontsize=style.TEXT, color=style.INK, labelpad=2)
    axes.set_ylabel(y, fontsize=style.TEXT, color=style.INK, labelpad=3)


def note(axes: Axes, text: str) -> None:
    """Write in the middle of empty axes why they are empty."""
    inches = axes.get_position().width * axes.figure.get_size_inches()[0] - 0.2  # pyright: ignore[reportAttributeAccessIssue]
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    text = wrap(text, inches, style.TEXT)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", gid="why empty",
              fontsize=style.TEXT, color=style.MUTED, parse_math=False,
              fontfamily=list(fonts_for(text)))  # fmt: skip


def legend_height(entries: Sequence[Entry], wide: float = WIDE) -> float:
    """Return how high the legend will be, in inches."""
    return 0.155 * len(_in_rows(entries, wide)) + 0.05 if entries else 0.0


def legend(drawn: style.Page, top: float, entries: Sequence[Entry], wide: float = WIDE) -> None:
    """Write the legend ``top`` inches below the page's top, in as many rows as it needs."""
    high = float(drawn.get_size_inches()[1])
    scale = drawn.dpi_scale_trans
    for row, places in enumerate(_in_rows(entries, wide)):
        y = high - top - 0.09 - 0.155 * row
        for x, entry, name in places:
            middle = [x, x + 0.13, x + 0.26]
            looks = {"linewidth": 1.3, "markevery": [1], "markersize": 4.5} | entry.looks
            drawn.add_artist(_patch(x, y, scale, entry.looks) if "hatch" in entry.looks
                             else Line2D(middle, [y] * 3, transform=scale, **looks))  # fmt: skip
            drawn.text(x + _HANDLE, y, name, transform=scale, va="center_baseline",
                       fontsize=style.TEXT, color=style.INK, parse_math=False, gid="legend",
                       fontfamily=list(fonts_for(name)))  # fmt: skip


def _patch(x: float, y: float, scale: Any, looks: dict[str, Any]) -> Rectangle:
    return Rectangle((x, y - 0.045), 0.26, 0.09, transform=scale, edgecolor=style.PAPER,
                     linewidth=0, facecolor=looks["color"], hatch=looks["hatch"])  # fmt: skip


def _in_rows(entries: Iterable[Entry], wide: float) -> list[list[tuple[float, Entry, str]]]:
    rows: list[list[tuple[float, Entry, str]]] = []
    x = wide
    for entry in entries:
        name = shorten(one_line(entry.name), _LONGEST_ENTRY, style.TEXT)
        room = _HANDLE + width(name, style.TEXT) + _BETWEEN
        if x + room > wide:
            rows.append([])
            x = MARGIN
        rows[-1].append((x, entry, name))
        x += room
    return rows
