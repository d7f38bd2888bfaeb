"""Single units of head and tail: the norm of each before and after clipping, and the threshold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.figures.scales import logarithmic
from analysis.figures.sheet import label, note
from analysis.gradient_file import AFTER, BEFORE, is_of
from analysis.lines import Family
from analysis.wording import counted

HEAD: dict[str, Any] = {"color": style.HEAD, "marker": "s"}
TAIL: dict[str, Any] = {"color": style.TAIL, "marker": "o"}
WITHOUT = "no gradients of single units: these runs left no gradients.parquet"
_SIDES = {"head": HEAD, "tail": TAIL}
_RUGS = {"head": 0.965, "tail": 0.905}
_ROOM = 4.0
"""Above the threshold, for the rugs: many points lie on top of each other."""
_FLOOR = 1e-3
"""Of the threshold: what is smaller hardly moves the mean, and would fill the axes."""


def last_looks(gradients: pd.DataFrame | None, cells: Family) -> pd.DataFrame:
    """Return the rows of every run's last look, with its ``condition``, as far as a logarithmic
    axis can show their norms.
    """
    named = cells.named[["run_key", "condition"]]
    if gradients is None or gradients.empty:
        return pd.DataFrame({name: [] for name in [*named, "step", "side"]})
    last = gradients["step"] == gradients.groupby("run_key")["step"].transform("max")
    norms = gradients[[BEFORE, AFTER]].to_numpy(float)
    shown = last.to_numpy(bool) & np.isfinite(norms).all(axis=1) & (norms > 0).all(axis=1)
    return gradients.loc[shown, :].merge(named, on="run_key")


def draw_scatter(axes: Axes, own: pd.DataFrame) -> None:
    """Draw the units ``own``, the last looks of one condition: a point a unit, head and tail
    told apart, their medians large; the threshold, and the line of what is not clipped.
    """
    if own.empty:
        note(axes, WITHOUT)
        return
    before, after = (own[name].to_numpy(float) for name in (BEFORE, AFTER))
    threshold = float(own["threshold"].to_numpy(float).mean())
    has_c = math.isfinite(threshold) and threshold > 0
    floor = threshold * _FLOOR if has_c else 0.0
    x = max(before.min(), min(floor, before.max() / 2)) / 1.5, before.max() * 1.5
    y = (
        max(after.min(), min(floor, after.max() / 2)) / 1.5,
        max(after.max(), floor / _FLOOR) * _ROOM,
    )
    _below(axes, before < x[0])
    for end, looks in _SIDES.items():
        side = is_of(own, end)
        if not side.any():
            continue
        axes.plot(before[side], after[side], linestyle="", markersize=2.2, alpha=0.45,
                  markeredgewidth=0, zorder=3, gid=end, **looks)  # fmt: skip
        axes.plot(before[side], np.full(side.sum(), _RUGS[end]), linestyle="", marker="|",
                  markersize=4, markeredgewidth=0.5, alpha=0.6, color=looks["color"],
                  transform=axes.get_xaxis_transform(), gid=f"{end} rug")  # fmt: skip
        axes.plot([np.median(before[side])], [np.median(after[side])], linestyle="", zorder=5,
                  markersize=6.5, markeredgecolor=style.PAPER, markeredgewidth=0.9,
                  gid=f"{end} median", **looks)  # fmt: skip
    other = ~is_of(own, "head") & ~is_of(own, "tail")
    axes.plot(before[other], after[other], linestyle="", marker=".", markersize=2.2, zorder=2,
              color=style.MUTED, alpha=0.45, gid="neither")  # fmt: skip
    axes.plot(x, x, color=style.MUTED, linewidth=0.7, zorder=1, gid="not clipped")
    if has_c:
        axes.axhline(threshold, color=style.INK, linewidth=0.8, linestyle=(0, (2, 2)), gid="C")
    axes.set(xscale="log", yscale="log", xlim=x, ylim=y)
    logarithmic(axes.xaxis, x, most=5)
    logarithmic(axes.yaxis, y, most=5)
    label(axes, x="norm before", y="norm after")


def _below(axes: Axes, hidden: np.ndarray) -> None:
    """Say how many units lie left of what is shown."""
    if hidden.any():
        axes.text(0.98, 0.04, f"{hidden.sum()} of {len(hidden)} smaller", transform=axes.transAxes,
                  ha="right", fontsize=style.TEXT, color=style.MUTED, gid="smaller",
                  bbox={"facecolor": style.PAPER, "linewidth": 0, "pad": 0.8})  # fmt: skip


def words(gradients: pd.DataFrame) -> str:
    """Return what the points are, for the caption; nothing without any."""
    if gradients.empty:
        return ""
    steps = sorted({int(step) for step in gradients["step"].to_numpy()})
    told = (
        f"step {steps[0]}" if len(steps) == 1 else f"the last looks, steps {steps[0]}–{steps[-1]}"
    )
    runs = sorted(set(gradients["run_key"]))
    n = {end: Counter(gradients.loc[is_of(gradients, end), "run_key"]) for end in _SIDES}
    counts = ", ".join(
        f"{_range([found[run] for run in runs])} of the {end}" for end, found in n.items()
    )
    return (
        f"3: single units at {told}, over all clip groups together: a sample with the tail enlarged"
        f" (n a run: {counts}; {counted(len(runs), 'run')} in all); large: medians; strokes on"
        " top: norms before; thin line: not clipped; smaller: below C / 1,000, and not drawn"
    )


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"
