"""How every figure looks: colours that survive colour blindness and grey print, and saving."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import style
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

INK = "#1f1f1f"
MUTED = "#5f5f5f"
PAPER = "#ffffff"
PLAIN = "#f4f4f4"
EDGE = "#b8b8b8"
GRID = "#ececec"
TAIL = "#b3400f"

TEXT = 7.0
SMALL = 6.5
HEADING = 8.0

SURVIVING = mpl.colormaps["cividis"]
"""For shares where 1 is good: the more was lost the darker."""

LOST = mpl.colormaps["cividis_r"]
"""For shares where 1 is bad, so that dark means the same as in ``SURVIVING``."""

CHANGE = LinearSegmentedColormap.from_list(
    "change", ["#2d1152", "#7350a3", "#c3b5dc", "#f7f7f7", "#fbd39b", "#f0a030", "#d98200"]
)
"""Around zero. A loss ends far darker than a gain, so grey print tells most of them apart; the
sign is printed too."""

HEAD = "#0072b2"
"""Beside ``TAIL``, for what is not rare."""

_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#56b4e9", "#7b3294", "#e69f00", "#1f1f1f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1.5, 1.5)))

_MAX_PIXELS = 14_000


class Page(Figure):
    """A figure that draws itself with the project's settings, whoever saves or shows it."""

    def draw(self, renderer: RendererBase) -> None:
        """Draw everything, within ``drawing``."""
        with drawing():
            super().draw(renderer)


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with the project's settings, whatever the reader's matplotlibrc says.

    A glyph that no installed font has is drawn as a box, without a warning; a font without bold
    letters is used as it is.
    """
    fonts = logging.getLogger("matplotlib.font_manager")
    level = fonts.level
    fonts.setLevel(logging.ERROR)
    try:
        with _default_settings():
            yield
    finally:
        fonts.setLevel(level)


def series(place: int) -> dict[str, Any]:
    """Return colour, marker and dash of the line at a place: no two of the first 28 are alike, and
    neighbours differ in all three, for print in grey.
    """
    looks = {"color": _COLOURS[place % 7], "marker": _MARKERS[place % 7]}
    return {**looks, "linestyle": _DASHES[(place % 7 + place // 7) % 4]}


BASELINE: dict[str, Any] = {
    "color": "#5f5f5f",
    "marker": "*",
    "linestyle": (0, (3, 2)),
    "markersize": 6,
}
"""How the baseline is drawn beside lines of rules."""


def ink_on(colour: tuple[float, float, float, float]) -> str:
    """Return black or white, whichever has the higher contrast on ``colour`` (WCAG 2.1)."""
    return INK if contrast(INK, colour) >= contrast(PAPER, colour) else PAPER


def contrast(one: str, other: tuple[float, float, float, float]) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.1)."""
    light, dark = sorted((_luminance(to_rgb(one)), _luminance(to_rgb(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def shade(cmap: Colormap, value: float, limits: tuple[float, float]) -> tuple[float, ...]:
    """Return the RGBA colour of ``value`` on a scale from ``limits[0]`` to ``limits[1]``."""
    low, high = limits
    return cmap(min(1.0, max(0.0, (value - low) / (high - low))))


def save(figure: Figure, folder: Path, stem: str, title: str) -> list[Path]:
    """Write ``stem.png`` (300 dpi, less for a very large figure), ``.svg`` and ``.pdf``."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, pdf = (folder / f"{stem}.{ending}" for ending in ("png", "svg", "pdf"))
    dpi = min(300.0, _MAX_PIXELS / max(figure.get_size_inches()))
    with drawing():
        FigureCanvasAgg(figure).print_figure(png, dpi=dpi, metadata={"Title": title})
        vector = FigureCanvasSVG(figure)
        vector.print_figure(svg, metadata={"Title": title, "Date": None})
        about = {"Title": title, "CreationDate": None}
        FigureCanvasPdf(figure).print_figure(pdf, metadata=about)
    return [png, svg, pdf]


@contextmanager
def _default_settings() -> Iterator[None]:
    with warnings.catch_warnings(), style.context(["default", {"svg.hashsalt": "atlas"}]):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def _luminance(rgb: tuple[float, float, float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
