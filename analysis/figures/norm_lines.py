"""Norms over training: head and tail, before and after clipping, a panel a clip group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import schema, style
from analysis.figures.scales import logarithmic
from analysis.figures.sheet import WIDE, label, note, panel
from analysis.slices import SliceColumn

_GAP = 0.42
_COLOURS = {"before": "#8a8a8a", "after": "#0072b2"}
_DASHES = {"head": (0, (5, 1.5)), "tail": "-"}


def draw_lines(
    drawn: style.Page, corner: tuple[float, float], high: float, own: pd.DataFrame,
    columns: Sequence[SliceColumn], groups: Sequence[str], letter: str,
) -> None:  # fmt: skip
    """Draw a panel for each clip group, side by side from ``corner`` to the page's right margin.

    ``own`` holds the telemetry of one condition.
    """
    places = max(1, len(groups))
    left, y = corner
    wide = (WIDE - left - 0.1 - (places - 1) * _GAP) / places
    if not groups:
        axes = panel(drawn, (left, y), (wide, high), f"{letter}4  over training")
        note(axes, "no raw norms in the telemetry of these runs")
        return
    for place, group in enumerate(groups):
        told = "all groups" if group == schema.GROUP_ALL and places > 1 else group
        what = "over training" if places == 1 else told
        title = f"{letter}4  {what}" if place == 0 else told
        axes = panel(drawn, (left + place * (wide + _GAP), y), (wide, high), title)
        _group(axes, own.loc[own["group"] == group, :], columns)
        label(axes, x="step", y="gradient norm" if place == 0 else "")


def ends(columns: Sequence[SliceColumn]) -> dict[str, SliceColumn]:
    """Return the slices that stand for head and tail: bands, or else all and a rare label."""
    tails = [column for column in columns if column.tail]
    tails.sort(key=lambda column: column.kind != "rarity")
    bands = [c for c in columns if c.kind == "rarity" and not c.tail]
    heads = [c for c in bands if c.name.lower() == "head"] or bands
    found = {"head": heads[0] if heads else columns[0]}
    if tails:
        found["tail"] = tails[0]
    return found


def _group(axes: Axes, rows: pd.DataFrame, columns: Sequence[SliceColumn]) -> None:
    values: list[float] = []
    for end, column in ends(columns).items():
        inside = (rows["slice_kind"] == column.kind) & (rows["slice"] == column.name)
        means = rows.loc[inside, :].groupby(["stat", "step"])["value"].mean()
        for when, colour in _COLOURS.items():
            names = [f"norm_{when}_q{q}" for q in (25, 50, 75)]
            if not all(name in means.index for name in names):
                continue
            low, middle, high = (means[name] for name in names)
            steps = middle.index.to_numpy(float)
            axes.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(steps, middle, color=colour, linestyle=_DASHES[end], linewidth=1.2,
                      marker="o" if end == "tail" else "", markersize=2.4,
                      gid=f"{end} {when}")  # fmt: skip
            values += [*low, *middle, *high]
    values = [value for value in values if np.isfinite(value) and value > 0]
    if not values:
        note(axes, "no raw norms for head and tail")
        return
    threshold = rows.loc[rows["stat"] == "threshold", :].groupby("step")["value"].mean()
    finite = threshold[np.isfinite(threshold.to_numpy(float)) & (threshold.to_numpy(float) > 0)]
    axes.plot(finite.index, finite, color=style.INK, linewidth=0.8, linestyle=(0, (2, 2)), gid="C")
    axes.set(yscale="log", ylim=(min(values) / 1.4, max([*values, *finite]) * 1.4))
    logarithmic(axes.yaxis, axes.get_ylim(), most=5)
