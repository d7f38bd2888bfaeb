"""Stability: how far seeds spread, and how often two seeds disagree on one example, by slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.churn import churn
from analysis.figures import common_words
from analysis.figures.marks import estimates, offsets
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
from analysis.lines import Chosen, Family, family
from analysis.measures import by_slice

READS = "predictions"
_MOST = 6
_LEFT, _HIGH = 0.55, 1.35


def wanted(table: pd.DataFrame | Family) -> list[str]:
    """Return the run keys of which ``figure`` wants predictions."""
    cells = family(table)
    return cells.keys([chosen.condition for chosen in _chosen(cells)])


def figure(table: pd.DataFrame | Family, predictions: pd.DataFrame) -> Figure:
    """Draw the spread of recall over seeds, and churn, by slice, of every rule at its best C.

    ``table`` holds cells of one family; ``predictions`` is what ``run_files`` read of ``wanted``.
    """
    with style.drawing():
        cells = family(table)
        chosen = _chosen(cells)
        slices = slice_axis(cells.columns, WIDE - _LEFT - 0.1)
        entries = [Entry(each.name, {**_looks(cells, each), "linestyle": ""}) for each in chosen]
        top = legend_height(entries) + 0.42
        second = top + _HIGH + 0.5
        drawn = page(second + _HIGH + slices.below + 0.05, _caption(cells, chosen, slices))
        legend(drawn, 0.02, entries)
        size = (slices.inches, _HIGH)
        spread = panel(drawn, (_LEFT, top), size)
        write_title(spread, "a  Recall of each seed, minus the mean of its rule's seeds", 14)
        _spread(spread, cells, chosen, slices)
        disagreement = panel(drawn, (_LEFT, second), size)
        write_title(disagreement, "b  Churn: share of examples on which two seeds disagree", 14)
        _churn(disagreement, cells, chosen, slices, predictions)
        return drawn


def _chosen(cells: Family) -> list[Chosen]:
    return [*cells.baselines()[:1], *cells.best()[:_MOST]]


def _looks(cells: Family, chosen: Chosen) -> dict[str, object]:
    if chosen.line is None:
        return dict(style.BASELINE)
    return style.series(cells.lines.index(chosen.line))


def _spread(axes: Axes, cells: Family, chosen: Sequence[Chosen], slices: SliceAxis) -> None:
    draw_slices(axes, slices, None, names=False)
    recall = by_slice(cells.table, slices.columns, "recall")
    axes.axhline(0, color=style.EDGE, linewidth=0.8, zorder=1)
    most = 0.0
    for each, offset in zip(chosen, offsets(len(chosen)), strict=True):
        values = recall.loc[cells.keys([each.condition])].to_numpy(float)
        number = np.isfinite(values).sum(axis=0)
        told = number > 1
        if not told.any():
            continue
        at = slices.at[told] + offset
        values = values[:, told] - np.nanmean(values[:, told], axis=0)
        sd = np.nanstd(values, axis=0, ddof=1)
        looks = _looks(cells, each)
        axes.vlines(at, -sd, sd, color=looks["color"], linewidth=3.4, alpha=0.35)
        for seed in values:
            axes.plot(at, seed, linestyle="", marker=looks["marker"], color=looks["color"],
                      markersize=2.6, gid=f"seed of {each.name}")  # fmt: skip
        most = max(most, float(np.nanmax(np.abs(values))))
    if most == 0 and not any(line.get_gid() for line in axes.lines):
        note(axes, "no rule has two seeds, so there is no spread to show")
        return
    axes.set_ylim(-1.12 * most - 0.005, 1.12 * most + 0.005)
    label(axes, y="recall − mean")


def _churn(
    axes: Axes, cells: Family, chosen: Sequence[Chosen], slices: SliceAxis, found: pd.DataFrame
) -> None:
    shares = [churn(found, cells.keys([each.condition]), slices.columns) for each in chosen]
    n = [int(max(share["n"][place] for share in shares)) for place in range(len(slices.columns))]  # pyright: ignore[reportArgumentType]
    draw_slices(axes, slices, n if any(n) else None, names=True)
    if not any(share["churn"].notna().any() for share in shares):
        note(axes, "no two seeds of a rule have predictions of the same test examples")
        return
    for each, share, offset in zip(chosen, shares, offsets(len(chosen)), strict=True):
        interval = (share["lo"].to_numpy(float), share["hi"].to_numpy(float))
        values = share["churn"].to_numpy(float)
        estimates(axes, slices.at + offset, values, interval, _looks(cells, each), each.name)
    axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
    label(axes, y="share of examples")


def _caption(cells: Family, chosen: Sequence[Chosen], slices: SliceAxis) -> str:
    conditions = [each.condition for each in chosen]
    own = [
        "Test split, n examples a slice; shaded: the tail",
        common_words.best(chosen),
        common_words.seeds(cells, conditions, "a: dots are seeds, bars ± one standard deviation,"),
        "b: mean over all pairs of seeds, with a 95 % interval by a bootstrap over the test"
        " examples, which all seeds share",
        common_words.at_most(cells.lines, _MOST),
        slices.words,
        common_words.budgets(cells),
    ]
    return common_words.caption(cells, conditions, own)
