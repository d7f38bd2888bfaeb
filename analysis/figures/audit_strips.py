"""Memorisation slice by slice: what each lost in recall, and what is still known of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.audits import CHANCE, Audits, paired_fall
from analysis.figures.audit_panels import MOST as LARGEST
from analysis.figures.audit_panels import UNITS
from analysis.figures.marks import drawn_interval, drawn_interval_of, estimates, offsets
from analysis.figures.sheet import label, note
from analysis.figures.slice_axis import SliceAxis, draw_slices
from analysis.lines import Line

MOST = 4
"""Rules that are drawn beside each other."""


def best_of(audit: Audits | None) -> list[tuple[Line, int]]:
    """Return the rules at the main ε, each with its best condition (its middle one without)."""
    if audit is None:
        return []
    found: list[tuple[Line, int]] = []
    for line in audit.at(audit.epsilon)[:MOST]:
        middle = line.conditions[len(line.conditions) // 2]
        found.append((line, middle if line.best is None else line.best))
    return found


def lost(axes: Axes, audit: Audits | None, slices: SliceAxis, names: Sequence[str]) -> None:
    """Draw the fall of recall from the baseline of the same seed."""
    draw_slices(axes, slices, None, names=False)
    axes.axhline(0, color=style.EDGE, linewidth=0.8, zorder=1)
    drawn = False
    chosen = best_of(audit)
    for (line, condition), shift in zip(chosen, offsets(len(chosen)), strict=True):
        if audit is None:
            continue
        found = [drawn_interval_of(paired_fall(audit, condition, one)) for one in slices.columns]
        mean, low, high = (np.array(values) for values in zip(*found, strict=True))
        looks = style.series(names.index(line.name))
        estimates(axes, slices.at + shift, mean, (low, high), looks, line.name)
        drawn = drawn or bool(np.isfinite(mean).any())
    if not drawn:
        note(axes, "no audited cell has a finished baseline of its seed")
        return
    label(axes, y="recall lost")


def leaked(
    axes: Axes, audit: Audits | None, slices: SliceAxis, names: Sequence[str], *, last: bool,
    why: str,
) -> None:  # fmt: skip
    """Draw an audit's metric of every rule and of the baseline, n its records with a coin."""
    if audit is None:
        draw_slices(axes, slices, [0] * len(slices.columns), names=last)
        note(axes, why)
        return
    marks: list[tuple[int, dict[str, Any], str]] = [
        (condition, style.series(names.index(line.name)), line.name)
        for line, condition in best_of(audit)
    ]
    base = {**style.BASELINE, "markerfacecolor": style.PAPER}
    marks += [(condition, base, "baseline") for condition in audit.baselines[:1]]
    counted = [condition for condition, _, _ in marks]
    n = [audit.n(column, counted) for column in slices.columns]
    draw_slices(axes, slices, n, names=last)
    axes.axhline(CHANCE[audit.metric], color=style.MUTED, linewidth=0.9, zorder=1,
                 linestyle=(0, (1, 1.5)), gid="chance")  # fmt: skip
    found = {column: audit.found(column) for column in slices.columns}
    for (condition, looks, name), shift in zip(marks, offsets(len(marks)), strict=True):
        rows = pd.concat([found[column].reindex([condition]) for column in slices.columns])
        mean, (low, high) = rows["mean"].to_numpy(float), drawn_interval(rows)
        ends = np.clip(low, 0, None), np.clip(high, None, LARGEST[audit.metric])
        estimates(axes, slices.at + shift, mean, ends, looks, name)
    label(axes, y=UNITS[audit.metric])
