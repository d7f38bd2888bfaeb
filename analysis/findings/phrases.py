"""The words of findings: slices, conditions, shares and points."""

from __future__ import annotations

import math

from analysis.findings.statistics import Estimate
from analysis.lettering import one_line
from analysis.lines import Line
from analysis.slices import SliceColumn
from analysis.wording import epsilon_text

_LONGEST = 60
_WHAT = {"label": "label", "rarity": "the band", "ids": "the list"}


def of_slice(column: SliceColumn) -> str:
    """Return a slice in words, its name in one line and quoted: names may be anything."""
    if column.kind == "all":
        return "all examples"
    name = one_line(column.name)
    name = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return f"{_WHAT.get(column.kind, 'the slice')} “{name}”"


def of_line(line: Line, condition: int) -> str:
    """Return rule, settings and C, and where any C trains alike, that it does: what is kept of a
    gradient is still in proportion to it.
    """
    norm = line.norm(condition)
    if line.idle and not math.isnan(norm):
        return f"{line.name} (C = {norm:g}; any C trains alike)"
    return line.name if math.isnan(norm) else f"{line.name} at C = {norm:g}"


def at(epsilon: float) -> str:
    """Return ``At ε = 3``."""
    return f"At {epsilon_text(epsilon)}"


def share(value: float) -> str:
    """Return a share with two decimals, and that it is missing."""
    return "no value" if math.isnan(value) else f"{value:.2f}"


def percent(value: float) -> str:
    """Return a share in per cent: 2 significant digits below 10."""
    if math.isnan(value):
        return "no value"
    return f"{100 * value:.2g} %" if abs(value) < 0.0995 else f"{100 * value:.0f} %"


def points(value: float) -> str:
    """Return a difference of shares in percentage points, without sign."""
    return f"{abs(100 * value):.0f} {'point' if round(abs(100 * value)) == 1 else 'points'}"


def bits(value: float) -> str:
    """Return an exposure, or a difference of two, in bits without sign."""
    return f"{abs(value):.1f} bits"


def interval(effect: Estimate) -> str:
    """Return the 95 % interval of a difference in points, turned so that the difference is > 0."""
    low, high = sorted(math.copysign(1, effect.mean) * end for end in (effect.lo, effect.hi))
    return f"[{100 * low:.0f}, {100 * high:.0f}]".replace("[-", "[−").replace(", -", ", −")


def basis(effect: Estimate, column: SliceColumn) -> str:
    """Return how many seeds and examples carry it, and for whom it speaks."""
    n = f"{column.n_low}" if column.n_low == column.n_high else f"{column.n_low}–{column.n_high}"
    seeds = f"{effect.seeds} seeds"
    if effect.of_examples:
        return f"{seeds}, n = {n}; for other seeds and other examples"
    return f"{seeds}, n = {n}; for other seeds on the same test examples"
