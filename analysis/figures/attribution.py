"""Attribution: how much of each slice's fall from the baseline is clipping, noise, or both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.effects import EFFECTS, FALL, effects, partners
from analysis.figures import common_words
from analysis.figures.marks import drawn_interval_of, estimates, offsets
from analysis.figures.sheet import (
    WIDE,
    Entry,
    label,
    legend,
    legend_height,
    note,
    page,
    panel,
    write_title,
)  # fmt: skip
from analysis.figures.slice_axis import SliceAxis, draw_slices, slice_axis
from analysis.interval import DIFFERENCE
from analysis.lines import Chosen, Family, family
from analysis.measures import by_slice
from analysis.slices import SliceColumn

_MOST = 6
_LEFT, _HIGH, _APART = 0.55, 1.3, 0.47
_NARROW = 1.65
_WIDTH = 0.24
_OF_FOUR = (-2.0, 2.0)
"""An interaction is a difference of two differences of shares."""
_LOOKS = {
    "clipping": {"color": "#d55e00", "hatch": ""},
    "noise": {"color": "#0072b2", "hatch": "////"},
    "interaction": {"color": "#8f8f8f", "hatch": "...."},
}
_FALL_LOOKS = {"color": style.INK, "marker": "D", "markersize": 3.8}


def figure(table: pd.DataFrame | Family) -> Figure:
    """Draw the fall of recall by slice, split, of every rule at its best C; beside it, over C, that
    of the tail. ``table`` holds cells of one family with diagnostics beside the private cells.
    """
    with style.drawing():
        cells = family(table)
        chosen = cells.best()[:_MOST]
        pairs = partners(cells.table, cells.named)
        found = cells.columns
        slices = slice_axis(found, WIDE - _LEFT - _NARROW - 0.75)
        tail = _tail(found)
        split = effects(by_slice(cells.table, slices.columns, "recall"), pairs)
        of_tail = effects(by_slice(cells.table, [tail], "recall"), pairs)
        entries = _entries()
        top = legend_height(entries) + 0.42
        rows = max(1, len(chosen))
        high = top + rows * _HIGH + (rows - 1) * _APART + slices.below + 0.08
        drawn = page(high, _caption(cells, chosen, pairs, slices, tail))
        legend(drawn, 0.02, entries)
        limits = _limits(split, of_tail, pairs, cells)
        for row in range(rows):
            last = row == rows - 1
            y = top + row * (_HIGH + _APART)
            wide = panel(drawn, (_LEFT, y), (slices.inches, _HIGH))
            draw_slices(wide, slices, None, names=last)
            narrow = panel(drawn, (WIDE - _NARROW - 0.1, y), (_NARROW, _HIGH))
            if not chosen:
                note(wide, "no private cell is finished, so there is no fall to split")
                note(narrow, "no private cell")
                continue
            _by_slice(wide, chosen[row], pairs, split, slices, row)
            _by_norm(narrow, chosen[row], pairs, of_tail, tail, row, last=last)
            for axes in (wide, narrow):
                axes.set_ylim(limits)
        return drawn


def _by_slice(
    axes: Axes, chosen: Chosen, pairs: pd.DataFrame, split: dict[str, np.ndarray],
    slices: SliceAxis, row: int,
) -> None:  # fmt: skip
    write_title(axes, f"{'abcdef'[row]}1  {chosen.name}", 14)
    label(axes, y="fall of recall (points)")
    own = (pairs["condition"] == chosen.condition).to_numpy()
    _bars(axes, slices.at, [{name: values[own] for name, values in split.items()}], False)


def _by_norm(
    axes: Axes, chosen: Chosen, pairs: pd.DataFrame, of_tail: dict[str, np.ndarray],
    tail: SliceColumn, row: int, *, last: bool,
) -> None:  # fmt: skip
    line = chosen.line
    if line is None:
        return
    write_title(axes, f"{'abcdef'[row]}2  {_named(tail)}, by C", 14)
    parts = []
    for condition in line.conditions:
        own = (pairs["condition"] == condition).to_numpy()
        parts.append({name: values[own] for name, values in of_tail.items()})
    at = np.arange(len(line.conditions), dtype=float)
    _bars(axes, at, parts, True)
    axes.set_xlim(-0.6, max(at) + 0.6)
    ticks = ["–" if np.isnan(norm) else f"{norm:g}" for norm in line.norms]
    few = at[:: 1 + len(at) // 8].astype(int)
    axes.set_xticks(few, [ticks[place] for place in few])
    if last:
        label(axes, x="clipping threshold C (norm)")


def _bars(axes: Axes, at: np.ndarray, parts: Sequence[dict[str, np.ndarray]], each: bool) -> None:
    """Draw the effects in points. ``each``: one part of one column a place; else one of all."""
    axes.axhline(0, color=style.INK, linewidth=0.7, zorder=3)

    def told(name: str) -> np.ndarray:
        columns = [part[name][:, 0] for part in parts] if each else list(parts[0][name].T)
        within = _OF_FOUR if name == EFFECTS[-1] else DIFFERENCE
        found = [drawn_interval_of(values, within) for values in columns]
        return 100 * np.array(found).reshape(-1, 3)

    if not any(np.isfinite(told(name)).any() for name in (*EFFECTS, FALL)):
        note(axes, "no baseline beside these cells")
        return
    for name, offset in zip(EFFECTS, offsets(3), strict=True):
        middle, low, high = told(name).T
        looks = _LOOKS[name]
        axes.bar(at + offset, middle, _WIDTH, color=looks["color"], hatch=looks["hatch"],
                 edgecolor=style.PAPER, linewidth=0, gid=name, zorder=2)  # fmt: skip
        axes.vlines(at + offset, low, high, color=style.INK, linewidth=0.8, zorder=3)
    middle, low, high = told(FALL).T
    beside = 0.41 if any(np.isfinite(told(name)).any() for name in EFFECTS) else 0.0
    estimates(axes, at + beside, middle, (low, high), _FALL_LOOKS, FALL)


def _limits(
    split: dict[str, np.ndarray], of_tail: dict[str, np.ndarray], pairs: pd.DataFrame, cells: Family
) -> tuple[float, float]:
    """Return limits in points that hold every mean, and of the intervals what fits beside them."""
    own = pairs["condition"].isin([c for line in cells.lines for c in line.conditions]).to_numpy()
    means = [0.0]
    for values in (*split.values(), *of_tail.values()):
        frame = pd.DataFrame(values[own]).groupby(pairs.loc[own, "condition"].to_numpy()).mean()
        means += [float(v) for v in frame.to_numpy().ravel() if np.isfinite(v)]  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
    low, high = 100 * min(means), 100 * max(means)
    room = 0.3 * max(high - low, 5.0)
    return max(-120.0, low - room), min(120.0, high + room)


def _tail(columns: Sequence[SliceColumn]) -> SliceColumn:
    """Return the slice that stands for the tail: the band, or else the first rare label, or all."""
    tails = [column for column in columns if column.tail]
    return next((c for c in tails if c.kind == "rarity"), tails[0] if tails else columns[0])


def _named(column: SliceColumn) -> str:
    if column.kind == "all":
        return "All"
    return "Tail" if column.kind == "rarity" else f"{column.kind} {column.name}".capitalize()


def _entries() -> list[Entry]:
    entries = [Entry(name, dict(_LOOKS[name])) for name in EFFECTS]
    whole = {**_FALL_LOOKS, "linestyle": ""}
    return [*entries, Entry("whole fall: baseline − private cell", whole)]


def _caption(
    cells: Family, chosen: Sequence[Chosen], pairs: pd.DataFrame, slices: SliceAxis,
    tail: SliceColumn,
) -> str:  # fmt: skip
    conditions = common_words.all_conditions(cells)
    own = [
        "Recall on the test split (n examples a slice; shaded: the tail), in percentage points."
        " Clipping: baseline − clip only; noise: baseline − noise only; interaction: the rest of"
        " the fall, baseline − private cell; below 0 is a gain",
        "Paired by rule, C and seed; the baseline has a learning rate of its own, so that what"
        " another one does counts as clipping and as noise",
        common_words.best(chosen),
        common_words.intervals(
            cells, conditions, f"Bars: mean; lines, cut at the frame: {common_words.STUDENT},"
        ),
        _incomplete(pairs, conditions),
        common_words.at_most(cells.lines, _MOST),
        slices.words,
        common_words.budgets(cells),
    ]
    diagnostics = "Clip only, noise only and the baseline: diagnostic, not private (ε = ∞)"
    return common_words.caption(cells, conditions, own, diagnostics=diagnostics)


def _incomplete(pairs: pd.DataFrame, conditions: Sequence[int]) -> str:
    """Return how many of the private cells lack which partner."""
    own = pairs.loc[pairs["condition"].isin(list(conditions)), :]
    missing = [
        f"{int(own[name].isna().sum())} without {name}"
        for name in ("clip_only", "noise_only", "neither")
        if own[name].isna().any()
    ]
    return f"Of {len(own)} private cells {', '.join(missing)} are left out there" if missing else ""
