"""Gradient norms before and after clipping: their distribution by slice, and over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import schema, style
from analysis.figures import common_words, norm_scatter
from analysis.figures.norm_lines import draw_lines
from analysis.figures.scales import logarithmic
from analysis.figures.sheet import (
    HEADING,
    WIDE,
    Entry,
    label,
    legend,
    legend_height,
    note,
    page,
    panel,
    write_heading,
    write_title,
)  # fmt: skip
from analysis.figures.slice_axis import SliceAxis, draw_slices, slice_axis
from analysis.lines import Chosen, Family, family

READS = "telemetry"
READS_TOO = ("gradients",)
_MOST = 3
_LEFT, _HIGH, _GAP, _LINES_HIGH = 0.5, 1.15, 0.42, 1.25
_SCATTER = 1.7
_OVER = 0.14
_BETWEEN, _AFTER = 0.42, 0.82
_GROUPS = 4
BEFORE: dict[str, Any] = {"color": "#8a8a8a"}
AFTER: dict[str, Any] = {"color": "#0072b2"}
_FLOOR = 1e-6


def wanted(table: pd.DataFrame | Family) -> list[str]:
    """Return the run keys of which ``figure`` wants telemetry."""
    cells = family(table)
    return cells.keys([chosen.condition for chosen in cells.best()[:_MOST]])


def figure(
    table: pd.DataFrame | Family, telemetry: pd.DataFrame, gradients: pd.DataFrame | None = None
) -> Figure:
    """Draw norms by slice in the first and the last window of training, single units before and
    after clipping, and medians over training for head and tail, by clip group, of every rule at its
    best C.

    ``table`` holds cells of one family; ``telemetry`` and ``gradients`` are what ``run_files`` read
    of ``wanted``.
    """
    with style.drawing():
        cells = family(table)
        chosen = cells.best()[:_MOST]
        columns = cells.columns
        rows = _rows(telemetry, cells)
        units = norm_scatter.last_looks(gradients, cells)
        narrow = (WIDE - _LEFT - 0.1 - _GAP) / 2
        slices = slice_axis(columns, narrow)
        groups = [_groups(rows, each) for each in chosen]
        top = legend_height(_entries(), WIDE) + 0.42 + HEADING
        block = _HIGH + slices.below + _BETWEEN + _LINES_HIGH + _AFTER + HEADING
        high = top + max(1, len(chosen)) * block - 0.42 - HEADING
        drawn = page(high, _caption(cells, chosen, rows, slices, units))
        legend(drawn, 0.02, _entries())
        shared: list[Axes] = []
        for place, each in enumerate(chosen):
            y = top + place * block
            name = f"{'abcd'[place]}  {each.name}"
            write_heading(drawn, y, name, above=HEADING + _OVER, color=style.INK)
            own = rows.loc[rows["condition"] == each.condition, :]
            shared += _distributions(drawn, y, own, slices, "abcd"[place])
            below = y + _HIGH + slices.below + _BETWEEN
            letter = "abcd"[place]
            title = f"{letter}3  single units"
            axes = panel(drawn, (_LEFT, below), (_SCATTER, _LINES_HIGH), title)
            norm_scatter.draw_scatter(axes, units.loc[units["condition"] == each.condition, :])
            left = _LEFT + _SCATTER + _GAP + 0.08
            draw_lines(drawn, (left, below), _LINES_HIGH, own, columns, groups[place], letter)
        _same_limits(shared)
        if not chosen:
            axes = panel(drawn, (_LEFT, top), (WIDE - _LEFT - 0.1, _HIGH))
            note(axes, "no private cell is finished")
        return drawn


def _rows(telemetry: pd.DataFrame, cells: Family) -> pd.DataFrame:
    named = cells.named[["run_key", "condition"]]
    norms = telemetry["stat"].astype("string").str.startswith("norm_") | (
        telemetry["stat"] == "threshold"
    )
    return telemetry.loc[norms.fillna(value=False), :].merge(named, on="run_key")


def _groups(rows: pd.DataFrame, chosen: Chosen) -> list[str]:
    own = rows.loc[(rows["condition"] == chosen.condition) & (rows["stat"] == "norm_before_q50"), :]
    found = list(dict.fromkeys(own["group"]))
    layers = [group for group in found if group != schema.GROUP_ALL]
    return [schema.GROUP_ALL, *layers][:_GROUPS] if found else []


def _distributions(
    drawn: style.Page, y: float, own: pd.DataFrame, slices: SliceAxis, letter: str
) -> list[Axes]:
    joint = own.loc[own["group"] == schema.GROUP_ALL, :]
    steps = sorted(joint.loc[joint["stat"] == "norm_before_q50", "step"].unique())
    ends = [("1", steps[0], "first"), ("2", steps[-1], "last")] if steps else []
    shared: list[Axes] = []
    for place in range(2):
        x = _LEFT + place * (slices.inches + _GAP)
        axes = panel(drawn, (x, y), (slices.inches, _HIGH))
        if not ends:
            draw_slices(axes, slices, None, names=True)
            write_title(axes, f"{letter}{place + 1}", 14)
            note(axes, "no raw norms in the telemetry of these runs")
            continue
        number, step, which = ends[place]
        window = joint.loc[joint["step"] == step, :]
        title = f"{letter}{number}  {which} window, to step {step}"
        write_title(axes, title, 14)
        _boxes(axes, window, slices, _threshold(joint, step))
        label(axes, y="gradient norm" if place == 0 else "")
        shared.append(axes)
    return shared


def _boxes(axes: Axes, window: pd.DataFrame, slices: SliceAxis, threshold: float) -> None:
    keys = ["slice_kind", "slice", "stat"]
    means = window.groupby(keys)["value"].mean()
    medians = window.loc[window["stat"].isin(["norm_before_q50", "norm_after_q50"]), :]
    n: list[int] = []
    for x, column in zip(slices.at, slices.columns, strict=True):
        own = medians.loc[
            (medians["slice_kind"] == column.kind) & (medians["slice"] == column.name), :
        ]
        n.append(round(own["n"].mean()) if len(own) else 0)
        for when, offset, looks in (("before", -0.19, BEFORE), ("after", 0.19, AFTER)):
            names = [f"norm_{when}_q{q}" for q in schema.QUANTILES]
            told = [means.get((column.kind, column.name, name), np.nan) for name in names]  # pyright: ignore[reportAttributeAccessIssue]
            _box(axes, x + offset, np.maximum(np.array(told, float), _FLOOR), looks, when)
            seeds = own.loc[own["stat"] == names[2], "value"].to_numpy(float)
            axes.plot([x + offset] * len(seeds), np.maximum(seeds, _FLOOR), linestyle="",
                      marker=".", markersize=1.8, color=style.INK, zorder=4,
                      gid="seeds")  # fmt: skip
    draw_slices(axes, slices, n, names=True)
    if np.isfinite(threshold) and threshold > 0:
        axes.axhline(threshold, color=style.INK, linewidth=0.8, linestyle=(0, (2, 2)), gid="C")


def _box(axes: Axes, x: float, told: np.ndarray, looks: dict[str, Any], gid: str) -> None:
    if not np.isfinite(told).all():
        return
    q10, q25, q50, q75, q90 = told
    axes.plot([x, x], [q10, q90], color=looks["color"], linewidth=0.9, zorder=2)
    axes.plot([x, x], [q25, q75], color=looks["color"], linewidth=4.2, solid_capstyle="butt",
              zorder=2.5)  # fmt: skip
    axes.plot([x], [q50], marker="_", markersize=5.5, color=style.INK, markeredgewidth=1.1,
              zorder=3, linestyle="", gid=gid)  # fmt: skip


def _threshold(rows: pd.DataFrame, step: int) -> float:
    own = rows.loc[(rows["stat"] == "threshold") & (rows["step"] == step), "value"]
    return float(own.mean()) if len(own) else float("nan")


def _same_limits(panels: Sequence[Axes]) -> None:
    values = [
        float(y)
        for axes in panels
        for line in axes.lines
        for y in np.asarray(line.get_ydata(), float)
        if y > _FLOOR and line.get_transform() == axes.transData
    ]
    low, high = min(values, default=0.1) / 1.6, max(values, default=10.0) * 1.6
    for axes in panels:
        axes.set(yscale="log", ylim=(low, high))
        logarithmic(axes.yaxis, (low, high))


def _entries() -> list[Entry]:
    return [
        Entry("before clipping", {**BEFORE, "hatch": ""}),
        Entry("after clipping", {**AFTER, "hatch": ""}),
        Entry("threshold C", {"color": style.INK, "linestyle": (0, (2, 2)), "linewidth": 0.8}),
        Entry("head", {"color": style.INK, "linestyle": (0, (5, 1.5)), "linewidth": 1.2}),
        Entry("tail", {"color": style.INK, "marker": "o", "linewidth": 1.2}),
        Entry("head unit", {**norm_scatter.HEAD, "linestyle": ""}),
        Entry("tail unit", {**norm_scatter.TAIL, "linestyle": ""}),
    ]


def _caption(
    cells: Family, chosen: Sequence[Chosen], rows: pd.DataFrame, slices: SliceAxis,
    units: pd.DataFrame,
) -> str:  # fmt: skip
    conditions = [each.condition for each in chosen]
    probed = "probe" if (rows["release"] == "public").any() else "training"  # pyright: ignore[reportGeneralTypeIssues]
    own = [
        f"Norms of the gradients of single units of {probed}. 1, 2: quartiles (thick) and deciles"
        " (thin) with the median, over all clip groups, means over seeds (dots: the median of every"
        " seed); n: units drawn in that window, mean over seeds; shaded: the tail",
        norm_scatter.words(units),
        "4: medians over training, with the quartiles as bands, by clip group",
        common_words.best(chosen),
        common_words.seeds(cells, conditions, "Means"),
        "Norms: diagnostic, not private",
        common_words.at_most(cells.lines, _MOST),
        slices.words,
        common_words.budgets(cells),
    ]
    return common_words.caption(cells, conditions, own)
