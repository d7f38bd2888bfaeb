"""Utility at a fixed ε and down the ladder of ε, and what each accountant says of the same runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.figures import common_words
from analysis.figures.accountants import draw_accountants
from analysis.figures.front import RING, draw_front
from analysis.figures.marks import drawn_interval
from analysis.figures.scales import thresholds
from analysis.figures.sheet import WIDE, Entry, label, legend, legend_height, note, page, panel
from analysis.lines import Family, Line, family, private_lines
from analysis.measures import Measure, over_conditions, overall
from analysis.wording import epsilon_text

READS = "ledgers"
_LEFT, _HIGH, _STEP, _SQUARE = 0.5, 1.85, 2.36, 1.83
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
        entries.append(Entry("best C by validation accuracy", {**RING, "color": style.INK}))
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
        draw_front(axes, cells, measures, names)
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
        "Test split. a: a line a rule, joining its thresholds C in their order; what is hollow"
        " at the frame, if anything, lies beyond it",
        several if rungs > 1 else "These cells have one ε, so there is no ladder of ε",
        common_words.intervals(
            cells, conditions, f"Bars in a (of the best C, cut at the frame) and bands: {_T},",
            "small dots in a are seeds of the best C",
        ),
        f"{'d' if rungs > 1 else 'b'}: what other accountants say of the same runs at the same δ:"
        " filled, upper bounds; hollow, estimates, which certify nothing; line: what certifies"
        if len(ledgers) else "",
        common_words.idle(cells.lines[:_MOST]),
        common_words.at_most(cells.lines, _MOST),
    ]  # fmt: skip
    return common_words.caption(cells, conditions, own)
