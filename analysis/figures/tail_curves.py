"""Tail curves: what rare examples keep, against the threshold C, a line a rule, at one ε."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.figures import common_words
from analysis.figures.marks import drawn_interval, seed_dots
from analysis.figures.scales import thresholds
from analysis.figures.sheet import Entry, label, legend, legend_height, note, page, panel
from analysis.lines import Family, Line, family
from analysis.measures import Measure, over_conditions, overall, rare_recall

_PANEL = (1.9, 1.75)
_LEFT, _STEP = 0.5, 2.32
_MOST = 8


def figure(table: pd.DataFrame | Family) -> Figure:
    """Draw recall on the rare labels, accuracy of the tail and of the worst slice against C.

    Lines are means over seeds and bands their 95 % interval where there are three seeds or more;
    dots are seeds. ``table`` holds cells of one family. Only the ε with the most cells is drawn.
    """
    with style.drawing():
        whole = family(table)
        cells = whole.first(_MOST)
        entries = _entries(cells)
        top = legend_height(entries) + 0.3
        words = _caption(cells, common_words.at_most(whole.lines, _MOST))
        drawn = page(top + _PANEL[1] + 0.42, words)
        legend(drawn, 0.02, entries)
        for place, (title, measure) in enumerate(_measures(cells)):
            axes = panel(drawn, (_LEFT + place * _STEP, top), _PANEL, f"{'abc'[place]}  {title}")
            _panel(axes, cells, title, measure)
        return drawn


def _measures(cells: Family) -> list[tuple[str, Measure | None]]:
    table = cells.table
    rare = rare_recall(table, cells.columns)
    return [
        (rare.name if rare else "Recall on rare labels", rare),
        ("Accuracy of the tail", overall(table, "tail_band", "tail")),
        ("Accuracy of the worst slice", overall(table, "tail_worst", "worst")),
    ]


def _panel(axes: Axes, cells: Family, title: str, measure: Measure | None) -> None:
    if measure is None:
        note(axes, f"{title}: no cell has a value")
        return
    found = over_conditions(measure.values, cells.named)
    axes.set_ylim(-0.02, 1.02)
    for place, line in enumerate(cells.lines):
        _line(axes, cells, line, place, measure, found)
    for chosen in cells.baselines():
        row = found.loc[chosen.condition]
        looks = {**style.BASELINE, "marker": ""}
        axes.axhline(row["mean"], linewidth=1.1, gid="baseline", **looks)
        (low,), (high,) = drawn_interval(found.loc[[chosen.condition]])
        if np.isfinite(low):
            axes.axhspan(low, high, color=style.MUTED, alpha=0.12, linewidth=0)
    thresholds(axes, [norm for line in cells.lines for norm in line.norms], right=2.6)
    _examples(axes, measure)
    label(axes, x="clipping threshold C (norm)", y=f"share right ({measure.n_text})")


def _line(
    axes: Axes, cells: Family, line: Line, place: int, measure: Measure, found: pd.DataFrame
) -> None:
    looks = style.series(place)
    rows = found.loc[list(line.conditions)]
    norms = np.array(line.norms)
    if not np.isfinite(norms).any():  # a rule without a threshold is the same at every C
        level = float(rows["mean"].iloc[0])
        axes.axhline(level, linewidth=1.2, gid=line.name, **{**looks, "marker": ""})
        return
    means, (low, high) = rows["mean"].to_numpy(float), drawn_interval(rows)
    axes.fill_between(norms, np.clip(low, 0, 1), np.clip(high, 0, 1), color=looks["color"],
                      alpha=0.15, linewidth=0)  # fmt: skip
    axes.plot(norms, means, markersize=4, linewidth=1.3, gid=line.name, zorder=3, **looks)
    if len(norms) == 1 and np.isfinite(low[0]):
        axes.plot([norms[0]] * 2, [low[0], high[0]], color=looks["color"], linewidth=1)
    for condition, norm in zip(line.conditions, norms, strict=True):
        keys = cells.keys([condition])
        own = measure.values.reindex(keys).dropna().to_numpy(float)
        seed_dots(axes, np.full(len(own), norm), own, looks["color"])
    if line.best is not None and not line.idle:
        best = line.norm(line.best)
        axes.plot([best], [rows.loc[line.best, "mean"]], marker="o", markersize=9, linestyle="",
                  markerfacecolor="none", markeredgecolor=looks["color"], markeredgewidth=1.1,
                  gid=f"best of {line.name}", zorder=4)  # fmt: skip


def _examples(axes: Axes, measure: Measure) -> None:
    """Show at the right edge how far one run's value is uncertain for its few test examples."""
    if np.isfinite(measure.half):
        place = axes.get_xlim()[1] / 1.25
        axes.errorbar([place], [0.02 + measure.half], [[measure.half]] * 2, color=style.MUTED,
                      capsize=2, elinewidth=1, capthick=1, gid="examples")  # fmt: skip


def _entries(cells: Family) -> list[Entry]:
    entries = [Entry(line.name, style.series(i)) for i, line in enumerate(cells.lines)]
    if cells.baselines():
        entries.append(Entry("baseline (not private)", {**style.BASELINE, "marker": ""}))
    if any(line.best is not None and not line.idle for line in cells.lines):
        ring = {"marker": "o", "markersize": 8, "markerfacecolor": "none", "linestyle": ""}
        entries.append(Entry("best C by validation accuracy", {**ring, "color": style.INK}))
    return entries


def _caption(cells: Family, left_out: str) -> str:
    conditions = common_words.all_conditions(cells)
    own = [
        "Test split, against C, a line a rule",
        "Dots: seeds",
        common_words.intervals(cells, conditions, f"Bands: {common_words.STUDENT},"),
        "Grey bar: 95 % interval of one run's value for the n examples that it was tested on,"
        " which all seeds share",
        common_words.idle(cells.lines),
        left_out,
        common_words.budgets(cells),
        _missing(cells),
    ]
    return common_words.caption(cells, conditions, own)


def _missing(cells: Family) -> str:
    if not cells.lines:
        return "No private cell is finished, so there is no line"
    if any(not np.isfinite(line.norms).any() for line in cells.lines):
        return "A rule without a threshold is a level line"
    return ""
