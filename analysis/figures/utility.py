"""Utility at a fixed ε and down the ladder of ε, and what each accountant says of the same runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.figures import common_words
from analysis.figures.accountants import draw_accountants
from analysis.figures.marks import FEWEST, drawn_interval, seed_dots
from analysis.figures.scales import thresholds
from analysis.figures.sheet import WIDE, Entry, label, legend, legend_height, note, page, panel
from analysis.lines import Family, Line, family, private_lines
from analysis.measures import Measure, over_conditions, overall
from analysis.wording import epsilon_text

READS = "ledgers"
_LEFT, _HIGH, _STEP, _SQUARE = 0.5, 1.85, 2.36, 1.83
_RING = {"marker": "o", "markersize": 8, "markerfacecolor": "none", "linestyle": ""}
_LEDGERS = 12
_MOST = 8
_T = common_words.STUDENT


def wanted(table: pd.DataFrame | Family) -> list[str]:
    """Return the run keys of which ``figure`` wants ledgers: one private run a condition of δ, σ,
    sampling and steps would do, so at most a few of every ε.
    """
    table = family(table).table
    private = table.loc[table["private"].fillna(value=False).astype(bool), :]
    runs = private.drop_duplicates("run_key")
    by = ["epsilon", "noise_multiplier", "delta", "batch", "steps_planned", "n_units", "unit"]
    return list(runs.drop_duplicates(by)["run_key"])[:_LEDGERS]


def figure(table: pd.DataFrame | Family, ledgers: pd.DataFrame) -> Figure:
    """Draw mean against tail accuracy at the main ε, both against ε, and ε by accountant.

    ``table`` holds cells of one family; ``ledgers`` is what ``run_files`` read of ``wanted``.
    """
    with style.drawing():
        whole = family(table)
        cells = whole.first(_MOST)
        names = _names([*cells.lines, *private_lines(cells.table, cells.named)])[:_MOST]
        ladder = [line for line in private_lines(cells.table, cells.named) if line.name in names]
        entries = [Entry(name, style.series(place)) for place, name in enumerate(names)]
        if cells.baselines():
            entries.append(Entry("baseline (not private)", dict(style.BASELINE)))
        entries.append(Entry("best C by validation accuracy", {**_RING, "color": style.INK}))
        top = legend_height(entries) + 0.32
        rungs = len({line.epsilon for line in ladder if np.isfinite(line.epsilon)})
        second = top + (_HIGH + 0.7 if rungs > 1 else 0)
        drawn = page(second + _HIGH + 0.45, _caption(whole, ladder, ledgers, rungs))
        legend(drawn, 0.02, entries)
        measures = (
            overall(cells.table, "macro_accuracy", "mean over classes"),
            overall(cells.table, "tail_band", "tail"),
        )
        at = epsilon_text(cells.epsilon) if cells.lines else "no private cell"
        size = (_SQUARE if rungs > 1 else _SQUARE + 0.7, _HIGH)
        axes = panel(drawn, (_LEFT, top), size, f"a  Mean and tail, {at}")
        _front(axes, cells, measures, names)
        for place, measure in enumerate(measures if rungs > 1 else ()):
            title = f"{'bc'[place]}  {('Mean over classes', 'Tail')[place]} against ε"
            axes = panel(drawn, (_LEFT + (place + 1) * _STEP, top), (_SQUARE, _HIGH), title)
            _ladder(axes, cells, ladder, measure, names)
        left = 1.05 if rungs > 1 else 4.15
        axes = panel(drawn, (left, second), (WIDE - left - 0.2, _HIGH))
        draw_accountants(
            axes, cells.named, ledgers, f"{'d' if rungs > 1 else 'b'}  ε by accountant"
        )
        return drawn


def _names(ladder: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.name for line in ladder))


def _front(
    axes: Axes, cells: Family, measures: Sequence[Measure | None], names: Sequence[str]
) -> None:
    mean, tail = measures
    if mean is None or tail is None or not cells.lines:
        missing = "tail band" if tail is None else "private cell with a mean over classes"
        note(axes, f"no {missing} in these cells")
        return
    across = over_conditions(mean.values, cells.named)
    up = over_conditions(tail.values, cells.named)
    for line in cells.lines:
        looks = style.series(names.index(line.name))
        x, y = (found.loc[list(line.conditions), "mean"].to_numpy(float) for found in (across, up))
        axes.plot(x, y, linewidth=0.8, markersize=4, gid=line.name, **looks)
        for condition in line.conditions:
            _cross(axes, across.loc[[condition]], up.loc[[condition]], looks["color"])
            _seeds(axes, cells, condition, (mean, tail), looks["color"])
        if len(x) > 1 and len(cells.lines) <= 4:
            for end, beside in ((0, 1), (-1, -2)):
                above = y[end] >= y[beside]
                axes.annotate(f"C = {line.norms[end]:g}", (x[end], y[end]), ha="center", gid="C",
                              xytext=(0, 5 if above else -5), textcoords="offset points",
                              va="bottom" if above else "top", fontsize=style.TEXT,
                              color=looks["color"])  # fmt: skip
        if line.best is not None:
            best = (across.loc[line.best, "mean"], up.loc[line.best, "mean"])
            axes.plot(*best, color=looks["color"], gid=f"best of {line.name}", **_RING)
    for chosen in cells.baselines()[:1]:
        told = [f"{found.loc[chosen.condition, 'mean']:.2f}" for found in (across, up)]
        axes.text(0.97, 0.97, f"baseline: {', '.join(told)}", transform=axes.transAxes, ha="right",
                  va="top", fontsize=style.TEXT, color=style.MUTED, gid="baseline")  # fmt: skip
    means = [found.loc[[c for line in cells.lines for c in line.conditions], "mean"]
             for found in (across, up)]  # fmt: skip
    axes.set(xlim=_around(means[0]), ylim=_around(means[1]))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    label(axes, x=f"mean over classes (test, {mean.n_text})", y=f"tail accuracy ({tail.n_text})")


def _around(means: pd.Series) -> tuple[float, float]:
    """Return limits that hold the means with room for their intervals, which may be cut."""
    low, high = float(means.min()), float(means.max())
    room = max(0.6 * (high - low), 0.03)
    return max(-0.02, low - room), min(1.02, high + room)


def _cross(axes: Axes, one: pd.DataFrame, two: pd.DataFrame, colour: str) -> None:
    looks: dict[str, Any] = {"color": colour, "alpha": 0.35, "linewidth": 0.7, "gid": "interval"}
    across, up = drawn_interval(one), drawn_interval(two)
    if np.isfinite([*across, *up]).all():
        axes.plot([across[0][0], across[1][0]], [two["mean"].iloc[0]] * 2, **looks)
        axes.plot([one["mean"].iloc[0]] * 2, [up[0][0], up[1][0]], **looks)


def _seeds(
    axes: Axes, cells: Family, condition: int, measures: tuple[Measure, Measure], colour: str
) -> None:
    """Draw a dot a seed where they are too few for an interval, joined through their mean."""
    keys = cells.keys([condition])
    x, y = (measure.values.reindex(keys).to_numpy(float) for measure in measures)
    if 1 < len(keys) < FEWEST:
        axes.plot(x, y, color=colour, alpha=0.35, linewidth=0.7, zorder=1.5)
        seed_dots(axes, x, y, colour)


def _ladder(
    axes: Axes, cells: Family, ladder: Sequence[Line], measure: Measure | None,
    names: Sequence[str],
) -> None:  # fmt: skip
    if measure is None or not ladder:
        note(axes, "no private cell has a value")
        return
    found = over_conditions(measure.values, cells.named)
    epsilons = sorted({line.epsilon for line in ladder if np.isfinite(line.epsilon)})
    for place, name in enumerate(names):
        rungs = sorted((line for line in ladder if line.name == name), key=lambda one: one.epsilon)
        at = [line.epsilon for line in rungs]
        rows = found.loc[[_best(line) for line in rungs]]
        looks = style.series(place)
        low, high = (np.clip(ends, 0, 1) for ends in drawn_interval(rows))
        axes.fill_between(at, low, high, color=looks["color"], alpha=0.15, linewidth=0)
        axes.plot(at, rows["mean"], markersize=4, linewidth=1.3, gid=name, **looks)
    for chosen in cells.baselines():
        axes.axhline(found.loc[chosen.condition, "mean"], linewidth=1.1, gid="baseline",
                     **{**style.BASELINE, "marker": ""})  # fmt: skip
    axes.set_ylim(-0.02, 1.02)
    thresholds(axes, epsilons, right=1.2)
    label(axes, x="ε", y=f"accuracy ({measure.n_text})")


def _best(line: Line) -> int:
    return line.conditions[len(line.conditions) // 2] if line.best is None else line.best


def _caption(cells: Family, ladder: Sequence[Line], ledgers: pd.DataFrame, rungs: int) -> str:
    conditions = [c for line in ladder for c in line.conditions]
    conditions += [chosen.condition for chosen in cells.baselines()]
    several = "b, c: every rule and ε at its best C by validation accuracy"
    own = [
        "Test split. a: a line a rule, joining its thresholds C in their order",
        several if rungs > 1 else "These cells have one ε, so there is no ladder of ε",
        common_words.intervals(
            cells, conditions, f"Bars (cut at the frame) and bands: {_T},",
            "small dots in a are seeds",
        ),
        f"{'d' if rungs > 1 else 'b'}: what other accountants say of the same runs at the same δ:"
        " filled, upper bounds; hollow, estimates, which certify nothing; line: what certifies"
        if len(ledgers) else "",
        common_words.at_most(cells.lines, _MOST),
    ]  # fmt: skip
    return common_words.caption(cells, conditions, own)
