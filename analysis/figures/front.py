"""Mean against tail accuracy: a point for each rule and threshold, a line a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.figures.marks import FEWEST, drawn_interval, seed_dots
from analysis.figures.point_labels import Labels, within
from analysis.figures.sheet import label, note
from analysis.lines import Family, Line
from analysis.measures import Measure, over_conditions

RING: dict[str, Any] = {"marker": "o", "markersize": 8, "markerfacecolor": "none", "linestyle": ""}
"""How the threshold that validation chose is marked."""
_FEW_LINES = 4
_Limits = tuple[float, float]


def draw_front(
    axes: Axes, cells: Family, measures: Sequence[Measure | None], names: Sequence[str]
) -> None:
    """Draw the lines of ``cells``, each with the place in ``names`` that its looks have.

    Only the best threshold of a rule has its interval, or its seeds. What lies far from the rest is
    drawn at the frame, hollow, and its values are written beside it.
    """
    mean, tail = measures
    if mean is None or tail is None or not cells.lines:
        missing = "tail band" if tail is None else "private cell with a mean over classes"
        note(axes, f"no {missing} in these cells")
        return
    across = over_conditions(mean.values, cells.named)
    up = over_conditions(tail.values, cells.named)
    drawn = [c for line in cells.lines for c in line.conditions]
    points = np.column_stack([found.loc[drawn, "mean"] for found in (across, up)])
    frame = _around(points[:, 0]), _around(points[:, 1])
    axes.set(xlim=frame[0], ylim=frame[1])
    labels = Labels(axes, np.clip(points, *np.transpose(frame)))
    for line in cells.lines:
        looks = style.series(names.index(line.name))
        own = points[[drawn.index(c) for c in line.conditions]]
        axes.plot(*own.T, linewidth=0.8, markersize=4, gid=line.name, **looks)
        chosen = line.conditions[len(line.conditions) // 2] if line.best is None else line.best
        _cross(axes, across.loc[[chosen]], up.loc[[chosen]], looks["color"])
        _seeds(axes, cells, chosen, (mean, tail), looks["color"])
        if line.best is not None and not line.idle:
            best = own[line.conditions.index(line.best)]
            axes.plot(*best, color=looks["color"], gid=f"best of {line.name}", **RING)
        _outside(axes, line, own, frame, labels, looks)
    for chosen in cells.baselines()[:1]:
        told = [f"{found.loc[chosen.condition, 'mean']:.2f}" for found in (across, up)]
        labels.corner(f"baseline: {', '.join(told)}", style.MUTED, "baseline")
    if len(cells.lines) <= _FEW_LINES:
        for line in cells.lines:
            own = points[[drawn.index(c) for c in line.conditions]]
            _ends(line, own, frame, labels, style.series(names.index(line.name))["color"])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    label(axes, x=f"mean over classes (test, {mean.n_text})", y=f"tail accuracy ({tail.n_text})")


def _around(means: np.ndarray) -> _Limits:
    """Return limits that hold the means, but for outlying ones, with room for their intervals,
    which may be cut.
    """
    low, high = within(means[np.isfinite(means)])
    room = max(0.6 * (high - low), 0.03)
    return max(-0.02, low - room), min(1.02, high + room)


def _is_outside(point: np.ndarray, frame: tuple[_Limits, _Limits]) -> bool:
    return any(not low <= x <= high for x, (low, high) in zip(point, frame, strict=True))


def _outside(
    axes: Axes, line: Line, own: np.ndarray, frame: tuple[_Limits, _Limits], labels: Labels,
    looks: dict[str, Any],
) -> None:  # fmt: skip
    hollow = looks | {"linestyle": "", "markerfacecolor": style.PAPER, "clip_on": False}
    for norm, point in zip(line.norms, own, strict=True):
        if np.isfinite(point).all() and _is_outside(point, frame):
            x, y = (float(value) for value in np.clip(point, *np.transpose(frame)))
            axes.plot([x], [y], markersize=5, zorder=4, gid="outside", **hollow)
            told = ", ".join(f"{value:.2f}" for value in point)
            where = f"C = {norm:g}: {told}" if np.isfinite(norm) else told
            labels.write((x, y), where, looks["color"], "C outside")


def _ends(
    line: Line, own: np.ndarray, frame: tuple[_Limits, _Limits], labels: Labels, colour: str
) -> None:
    """Write the smallest and the largest threshold beside the ends of a line, if there is room."""
    for end in (0, -1) if len(own) > 1 else ():
        if np.isfinite(own[end]).all() and not _is_outside(own[end], frame):
            x, y = (float(value) for value in own[end])
            labels.write((x, y), f"C = {line.norms[end]:g}", colour, "C")


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
