"""The panels of the figure on memorisation: against ε, against C, bounds beside claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.audits import CHANCE, Audits
from analysis.figures.marks import drawn_interval
from analysis.figures.scales import thresholds
from analysis.figures.sheet import label, note
from analysis.lines import Line
from analysis.slices import SliceColumn
from analysis.wording import plain_number

Looks = dict[str, Any]
UNITS = {"exposure": "exposure, bits", "membership_auc": "area under ROC",
         "tpr_at_1pct": "true positives"}  # fmt: skip
MOST = {"exposure": math.inf, "membership_auc": 1.0, "tpr_at_1pct": 1.0}
"""The largest that a metric can be; the smallest is 0."""
_BOUNDS = {"gradient": ("#8c510a", "p"), "canaries": ("#cc79a7", "h"),
           "membership": ("#01665e", "d")}  # fmt: skip
"""Neither colour nor mark is that of a slice or of canaries; hollow is only the baseline."""


def against_epsilon(
    axes: Axes, audit: Audits | None, shown: Sequence[tuple[SliceColumn, Looks]], why: str
) -> None:
    """Draw the leading rule's ladder of ε, at the best C of each, and the baseline at ∞."""
    if audit is None or not (audit.lines or audit.baselines):
        note(axes, why)
        return
    ladder = audit.ladder()
    epsilons = [line.epsilon for line in ladder]
    end = 2.6 * epsilons[-1] if epsilons else 1.0
    best = [_best(line) for line in ladder]
    _chance(axes, audit.metric)
    for place, (column, looks) in enumerate(shown):
        found = audit.found(column)
        shift = 1.035 ** (place - (len(shown) - 1) / 2)
        at = np.array(epsilons, float) * shift
        rows = found.reindex(best)
        _marks(axes, at, rows, looks, MOST[audit.metric], line=True)
        base = found.reindex(list(audit.baselines[:1]))
        _marks(
            axes, np.array([end * shift])[: len(base)], base, looks, MOST[audit.metric], line=False
        )
        if len(base) and len(rows):
            ends = [rows["mean"].iloc[-1], base["mean"].iloc[0]]
            axes.plot([at[-1], end * shift], ends, color=looks["color"], linewidth=0.8,
                      linestyle=(0, (1, 1.6)), zorder=2)  # fmt: skip
    ticks = [*epsilons, *([end] if audit.baselines else [])]
    axes.set(xscale="log", xlim=(min(ticks) / 1.5, max(ticks) * 1.9))
    words = [plain_number(epsilon) for epsilon in epsilons] + ["∞"]
    axes.set_xticks(ticks, words[: len(ticks)])
    axes.minorticks_off()
    _limits(axes, audit.metric)
    label(axes, x="ε (∞: not private)", y=UNITS[audit.metric])


def against_norm(
    axes: Axes, audit: Audits | None, shown: Sequence[tuple[SliceColumn, Looks]], why: str
) -> None:
    """Draw the leading rule over its thresholds at one ε; level lines are the baseline's."""
    line = next((one for one in audit.at(audit.epsilon) if one.name == audit.lead), None) \
        if audit is not None else None  # fmt: skip
    if audit is None or line is None or not np.isfinite(line.norms).any():
        note(axes, why)
        return
    _chance(axes, audit.metric)
    for place, (column, looks) in enumerate(shown):
        found = audit.found(column)
        shift = 1.035 ** (place - (len(shown) - 1) / 2)
        rows = found.reindex(list(line.conditions))
        _marks(axes, np.array(line.norms) * shift, rows, looks, MOST[audit.metric], line=True)
        for base in found.reindex(list(audit.baselines[:1]))["mean"].dropna():
            axes.axhline(base, color=looks["color"], linewidth=0.9, linestyle=looks["linestyle"],
                         alpha=0.55, gid="baseline")  # fmt: skip
    thresholds(axes, line.norms)
    _limits(axes, audit.metric)
    label(axes, x="threshold C", y=UNITS[audit.metric])


def beside_claim(axes: Axes, found: pd.DataFrame, why: str) -> None:
    """Draw every run's lower bound against the ε that is certified, and the line of equality."""
    found = found.loc[found["epsilon"].gt(0)]
    if found.empty:
        note(axes, why)
        return
    known = found["bound"].to_numpy(float)
    far = 1.12 * float(np.max(found["epsilon"].to_numpy(float)))
    top = max(far, 1.12 * float(np.max(known[np.isfinite(known)], initial=0.0)))
    axes.plot([0, far], [0, far], color=style.MUTED, linewidth=1, linestyle=(0, (4, 2)),
              gid="claim")  # fmt: skip
    names = sorted(set(found["audit"]))
    for place, name in enumerate(names):
        own = found.loc[found["audit"] == name]
        shift = 0.018 * far * (place - (len(names) - 1) / 2)
        high = own["bound"].clip(upper=top)
        axes.plot(own["epsilon"] + shift, high, markersize=3.6, markeredgewidth=0, alpha=0.6,
                  gid=f"bound {name}", **bound_looks(name))  # fmt: skip
        refuted = own["refuted"].fillna(value=False).astype(bool)
        axes.plot(own.loc[refuted, "epsilon"] + shift, high[refuted], linestyle="", marker="x",
                  color=style.TAIL, markersize=6, gid="refuted")  # fmt: skip
    axes.set(xlim=(0, far), ylim=(-0.04 * top, top))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    label(axes, x="certified ε", y="audited lower bound")


def bound_looks(name: str) -> Looks:
    """Return colour and marker of an audit's bounds."""
    colour, marker = _BOUNDS.get(name, (style.INK, "*"))
    return {"color": colour, "marker": marker, "linestyle": ""}


def _best(line: Line) -> int:
    return line.conditions[len(line.conditions) // 2] if line.best is None else line.best


def _marks(
    axes: Axes, at: np.ndarray, rows: pd.DataFrame, looks: Looks, most: float, *, line: bool
) -> None:
    mean, (low, high) = rows["mean"].to_numpy(float), drawn_interval(rows)
    low, high = np.clip(low, 0, None), np.clip(high, None, most)
    some = np.isfinite(low) & np.isfinite(mean)
    axes.vlines(at[some], low[some], high[some], color=looks["color"], linewidth=1, zorder=2.5)
    style_ = looks["linestyle"] if line else ""
    axes.plot(at, mean, linewidth=1.3, markersize=4, zorder=3, gid=looks["gid"],
              color=looks["color"], marker=looks["marker"], linestyle=style_,
              markerfacecolor=looks["color"] if line else style.PAPER)  # fmt: skip


def _chance(axes: Axes, metric: str) -> None:
    axes.axhline(CHANCE[metric], color=style.MUTED, linewidth=0.9, linestyle=(0, (1, 1.5)),
                 zorder=1, gid="chance")  # fmt: skip


def _limits(axes: Axes, metric: str) -> None:
    """Show what is there, with room, but no more than can be."""
    low, high = axes.get_ylim()
    most = MOST[metric]
    axes.set_ylim(max(low, -0.02), min(high, most + 0.02))
