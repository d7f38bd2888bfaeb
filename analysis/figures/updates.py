"""Bias and variance of the update: the clipped mean against the raw one, and how loud noise is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import schema, style
from analysis.figures import common_words
from analysis.figures.marks import FEWEST, drawn_interval_of, seed_dots
from analysis.figures.scales import logarithmic, thresholds
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
)
from analysis.lettering import one_line
from analysis.lines import Chosen, Family, Line, family

READS = "telemetry"
_MOST, _SEEDS, _GROUPS = 6, 5, 4
_LEFT, _HIGH, _ACROSS, _DOWN = 0.5, 1.15, 4, 0.78


@dataclass(frozen=True)
class _Stat:
    """A statistic of the update: its title, its axis, and whether that is of logarithms."""

    name: str
    title: str
    axis: str
    log: bool


_STATS = (
    _Stat("cosine", "Direction", "cosine, clipped · raw", False),
    _Stat("relative_length", "Length", "‖clipped‖ / ‖raw‖", True),
    _Stat("noise_norm", "Noise", "‖noise‖ (gradient units)", True),
    _Stat("snr", "Signal to noise", "‖clipped‖ / ‖noise‖", True),
)


def wanted(table: pd.DataFrame | Family) -> list[str]:
    """Return the run keys of which ``figure`` wants telemetry: the lines' runs, 5 seeds of each."""
    cells = family(table)
    conditions = [c for line in cells.lines[:_MOST] for c in line.conditions]
    own = cells.named.loc[cells.named["condition"].isin(conditions), :]
    return list(own.groupby("condition").head(_SEEDS)["run_key"])


def figure(table: pd.DataFrame | Family, telemetry: pd.DataFrame) -> Figure:
    """Draw cosine, relative length, noise and signal-to-noise over the steps, by clip group where
    the telemetry has them, and their means over training against C.

    ``table`` holds cells of one family; ``telemetry`` is what ``run_files`` read of ``wanted``.
    """
    with style.drawing():
        cells = family(table)
        chosen = cells.best()[:_MOST]
        rows = telemetry.loc[telemetry["stat"].isin([stat.name for stat in _STATS]), :]
        rows = rows.merge(cells.named[["run_key", "condition"]], on="run_key")
        found = _layers(rows, [each.condition for each in chosen])
        groups = [schema.GROUP_ALL, *_drawn(found)]
        entries = _entries(cells, chosen)
        several = len(groups) > 1
        top = legend_height(entries) + 0.3 + (HEADING if several else 0.0)
        bands = len(groups) + 1
        high = top + bands * _HIGH + (bands - 1) * _DOWN + 0.45
        drawn = page(high, _caption(cells, chosen, found, rows))
        legend(drawn, 0.02, entries)
        apart = (WIDE - _LEFT - 0.08) / _ACROSS
        size = (apart - 0.52, _HIGH)
        for row, group in enumerate([*groups, None]):
            if several and group is not None:
                name = "all layers" if group == schema.GROUP_ALL else one_line(group)
                write_heading(drawn, top + row * (_HIGH + _DOWN), name)
            for place, stat in enumerate(_STATS):
                corner = (_LEFT + place * apart, top + row * (_HIGH + _DOWN))
                by = ", by C" if group is None else ""
                title = f"{'abcd'[place]}{row + 1}  {stat.title}{by}"
                axes = panel(drawn, corner, size, title)
                if group is None:
                    _over_norms(axes, cells, stat, rows)
                else:
                    _over_steps(axes, cells, chosen, stat, rows, group)
        return drawn


def _layers(rows: pd.DataFrame, conditions: Sequence[int]) -> list[str]:
    """Return the layers with values of their own, in the order of the model."""
    own = rows.loc[rows["condition"].isin(list(conditions)), "group"]
    return [group for group in dict.fromkeys(own) if group != schema.GROUP_ALL]


def _drawn(layers: Sequence[str]) -> list[str]:
    """Return at most four of the layers: the first, the last, and evenly between."""
    if len(layers) <= _GROUPS:
        return list(layers)
    places = np.linspace(0, len(layers) - 1, _GROUPS).round().astype(int)
    return [layers[int(place)] for place in places]


def _over_steps(
    axes: Axes, cells: Family, chosen: Sequence[Chosen], stat: _Stat, rows: pd.DataFrame, group: str
) -> None:
    own = rows.loc[(rows["stat"] == stat.name) & (rows["group"] == group), :]
    for each in chosen:
        of_line = own.loc[own["condition"] == each.condition, :]
        seeds = of_line.pivot_table(index="step", columns="run_key", values="value")
        if seeds.empty or each.line is None:
            continue
        values = list(seeds.to_numpy(float))
        _band(axes, seeds.index.to_numpy(float), values, each.line, cells, stat)
    _finish(axes, stat)
    label(axes, x="step", y=stat.axis)


def _over_norms(axes: Axes, cells: Family, stat: _Stat, rows: pd.DataFrame) -> None:
    own = rows.loc[(rows["stat"] == stat.name) & (rows["group"] == schema.GROUP_ALL), :]
    means = own.groupby(["condition", "run_key"])["value"].mean().reset_index()
    for line in cells.lines[:_MOST]:
        values = [
            means.loc[means["condition"] == condition, "value"].to_numpy(float)
            for condition in line.conditions
        ]
        some = [np.isfinite(norm) and np.isfinite(own).any()
                for norm, own in zip(line.norms, values, strict=True)]  # fmt: skip
        if any(some):
            norms = np.array(line.norms)[some]
            _band(axes, norms, list(compress(values, some)), line, cells, stat)
    _finish(axes, stat)
    if axes.lines:
        thresholds(axes, [norm for line in cells.lines for norm in line.norms])
        label(axes, x="clipping threshold C", y=stat.axis)


def _band(
    axes: Axes, at: np.ndarray, values: Sequence[np.ndarray], line: Line, cells: Family, stat: _Stat
) -> None:
    looks = style.series(cells.lines.index(line))
    middle, low, high = np.array([drawn_interval_of(own) for own in values]).T
    for place, own in zip(at, values, strict=True):
        if 1 < np.isfinite(own).sum() < FEWEST:
            seed_dots(axes, np.full(len(own), place), own, looks["color"])
    if stat.log:
        low = np.maximum(low, middle / 10)
    axes.fill_between(at, low, high, color=looks["color"], alpha=0.18, linewidth=0)
    axes.plot(at, middle, linewidth=1.1, markersize=2.8, gid=line.name, **looks)


def _finish(axes: Axes, stat: _Stat) -> None:
    if not axes.lines:
        note(axes, "not in the telemetry of these runs")
        return
    if stat.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        middle = math.sqrt(low * high)  # a level line shall not look like a mountain
        low, high = min(low, middle / 4), max(high, middle * 4)
        axes.set_ylim(low, high)
        logarithmic(axes.yaxis, (low, high), most=5)
        return
    axes.set_ylim(-0.02 if _lowest(axes) >= 0 else None, 1.03)


def _lowest(axes: Axes) -> float:
    return min(float(np.nanmin(np.asarray(line.get_ydata(), float))) for line in axes.lines)


def _entries(cells: Family, chosen: Sequence[Chosen]) -> list[Entry]:
    def looks(each: Chosen) -> dict[str, Any]:
        return style.series(cells.lines.index(each.line)) if each.line else dict(style.BASELINE)

    return [Entry(each.name, looks(each)) for each in chosen]


def _caption(
    cells: Family, chosen: Sequence[Chosen], layers: Sequence[str], rows: pd.DataFrame
) -> str:
    conditions = [c for line in cells.lines[:_MOST] for c in line.conditions]
    last = min(len(layers), _GROUPS) + 2
    steps = rows.groupby("run_key")["step"].nunique()
    told = f"{int(steps.median())} steps" if len(steps) else "no step"  # pyright: ignore[reportArgumentType]
    by = "; the telemetry of these runs has no layers of their own"
    if layers:
        more = f", of which {_GROUPS} are drawn" if len(layers) > _GROUPS else ""
        by = f", of all parameters and by layer ({len(layers)}{more})"
    own = [
        f"The update before the learning rate, measured at {told} of the training{by}. Raw and"
        " clipped mean are of one batch, divided by the expected batch; ‖noise‖ is near"
        " σ·scale·√d / expected batch for d parameters",
        common_words.best(chosen),
        f"Row {last}: means over these steps, against C",
        common_words.intervals(
            cells, conditions, f"Lines: mean; bands: {common_words.STUDENT},", "dots are seeds"
        ),
        "All of it looks at raw gradients: diagnostic, not private",
        common_words.at_most(cells.lines, _MOST),
        common_words.budgets(cells),
    ]
    return common_words.caption(cells, conditions, own)
