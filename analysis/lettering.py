"""Text of any kind in a figure: which fonts have its letters, how wide it is, where it breaks."""

from __future__ import annotations

import re
from functools import cache
from unicodedata import east_asian_width

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font

BASE = "DejaVu Sans"

_CJK = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Microsoft YaHei", "PingFang SC"),
    *("Hiragino Sans GB", "Heiti SC", "SimHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei"),
    *("Noto Sans CJK JP", "Noto Sans CJK KR", "Droid Sans Fallback", "Arial Unicode MS"),
)
_DPI = 288
_ROUNDING = 1.04  # on a screen, hinting makes letters this much wider than in print


def fonts_for(text: str) -> tuple[str, ...]:
    """Return font families that together have the letters of ``text``, the base font first.

    Well-known fonts for Chinese, Japanese and Korean come before any other installed one.
    Letters that no font has are left to be drawn as boxes (``without_font`` names them).
    """
    return _families(frozenset(_visible(text)))


def without_font(text: str) -> str:
    """Return the letters of ``text`` that no installed font has, sorted."""
    missing = _visible(text)
    for family in fonts_for(text):
        missing -= _letters(family)
    return "".join(sorted(missing))


def one_line(name: str) -> str:
    """Return a name as it can be drawn: line breaks and runs of blanks are one blank."""
    drawn = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return drawn or "(empty)"


def width(text: str, points: float, weight: str = "normal") -> float:
    """Return the width in inches of the widest line of ``text``."""
    return max(_line_width(line, points, weight) for line in text.split("\n"))


def wrap(text: str, inches: float, points: float, weight: str = "normal") -> str:
    """Break ``text`` into lines of at most ``inches``: at blanks, but not at those around ``=``.

    One word that is too long stays whole.
    """
    lines: list[str] = []
    for word in re.split(r"(?<!=) (?!=)", text):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, points, weight) <= inches:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def break_name(name: str, inches: float, points: float, weight: str = "normal") -> str | None:
    """Return ``name`` on one or two lines of at most ``inches``, or None if it does not fit."""
    if width(name, points, weight) <= inches:
        return name
    breaks = [at for at in range(1, len(name)) if _breaks(name[at - 1], name[at])]
    for at in sorted(breaks, key=lambda at: abs(at - len(name) / 2)):
        lines = f"{name[:at].rstrip()}\n{name[at:]}"
        if width(lines, points, weight) <= inches:
            return lines
    return None


def shorten(name: str, inches: float, points: float) -> str:
    """Return ``name`` cut in its middle, with an ellipsis, to at most ``inches``."""
    keep = len(name)
    short = name
    while width(short, points) > inches and keep > 2:
        keep -= 1
        short = f"{name[: (keep + 1) // 2].rstrip()}…{name[len(name) - keep // 2 :].lstrip()}"
    return short


def _breaks(before: str, after: str) -> bool:
    """Say whether a line may end between two letters: at blanks and signs, and in Chinese."""
    wide = east_asian_width(before) == "W" and east_asian_width(after) == "W"
    return wide or (before in " _/-.," and after not in " _/-.,")


def _visible(text: str) -> set[str]:
    return {letter for letter in text if letter.isprintable() and not letter.isspace()}


@cache
def _families(letters: frozenset[str]) -> tuple[str, ...]:
    missing = set(letters) - _letters(BASE)
    families = [BASE]
    if missing:
        installed = dict.fromkeys(entry.name for entry in fontManager.ttflist)
        known = [family for family in _CJK if family in installed]
        for family in [*known, *sorted(set(installed) - set(known))]:
            if missing & _letters(family):
                families.append(family)
                missing -= _letters(family)
            if not missing:
                break
    return tuple(families)


@cache
def _letters(family: str) -> frozenset[str]:
    if family.startswith("Last Resort"):  # draws a box for everything
        return frozenset()
    entries = [entry for entry in fontManager.ttflist if entry.name == family]
    upright = [entry for entry in entries if entry.style == "normal" and entry.weight in (400, 380)]
    return frozenset(chr(code) for code in FT2Font((upright or entries)[0].fname).get_charmap())


@cache
def _line_width(line: str, points: float, weight: str) -> float:
    font = FontProperties(family=list(fonts_for(line)), size=points, weight=weight)
    wide, _, _ = _ruler().get_text_width_height_descent(line, font, ismath=False)
    return _ROUNDING * wide / _DPI


@cache
def _ruler() -> RendererAgg:
    return RendererAgg(8, 8, _DPI)
