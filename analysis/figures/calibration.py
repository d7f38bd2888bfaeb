"""Calibration: reliability of head and tail, and ECE beside what a calibrated model would show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
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
from analysis.interval import t_interval_of
from analysis.lettering import shorten, width
from analysis.lines import Chosen, Family, family
from analysis.measures import by_slice
from analysis.membership import membership
from analysis.reliability import reliability
from analysis.slices import SliceColumn

READS = "predictions"
_MOST = 6
_LEFT, _HIGH = 0.62, 1.4
_LARGEST, _COUNTS, _ACROSS, _GAP = 1.9, 0.28, 4, 0.24
_BELOW = _COUNTS + 0.86
_SECOND = 0.14
_PARTS = {"head": {"color": style.HEAD, "marker": "s", "linestyle": (0, (5, 1.5))},
          "tail": {"color": style.TAIL, "marker": "o", "linestyle": "-"}}  # fmt: skip
_CALIBRATED = {"color": "#a9a9a9", "hatch": ""}


def wanted(table: pd.DataFrame | Family) -> list[str]:
    """Return the run keys of which ``figure`` wants predictions."""
    cells = family(table)
    return cells.keys([chosen.condition for chosen in _chosen(cells)])


def figure(table: pd.DataFrame | Family, predictions: pd.DataFrame) -> Figure:
    """Draw reliability diagrams of head and tail, and ECE by slice, of every rule at its best C.

    ``table`` holds cells of one family; ``predictions`` is what ``run_files`` read of ``wanted``.
    """
    with style.drawing():
        cells = family(table)
        chosen = _chosen(cells)
        columns = cells.columns
        slices = slice_axis(columns, WIDE - _LEFT - 0.1)
        entries = [Entry(name, dict(looks)) for name, looks in _PARTS.items()]
        entries.append(Entry("calibrated", {"color": style.MUTED, "marker": "", "linewidth": 0.8}))
        top = legend_height(entries) + 0.32
        top += 0.14
        across = max(1, min(_ACROSS, len(chosen)))
        square = min(_LARGEST, (WIDE - _LEFT - 0.12 - (across - 1) * _GAP) / across)
        rows = max(1, -(-len(chosen) // across))
        names = [_titled(each, square - 0.15) for each in chosen]
        if any(settings for _, settings in names):
            top += _SECOND
        below = _BELOW + (_SECOND if any(settings for _, settings in names) else 0.0)
        second = top + rows * (square + below)
        of_ece = _of_ece(cells, chosen)
        third = second + legend_height(of_ece) + 0.2
        drawn = page(third + _HIGH + slices.below + 0.08, _caption(cells, chosen, slices, columns))
        legend(drawn, 0.02, entries)
        for place, each in enumerate(chosen):
            x = _LEFT + place % across * (square + _GAP)
            corner = (x, top + place // across * (square + below))
            own = predictions[predictions["run_key"].isin(cells.keys([each.condition]))]
            title, settings = names[place]
            axes, counts = _square(drawn, corner, square, first=place % across == 0)
            write_title(
                axes, f"{'abcdefgh'[place]}  {title}", 14 + (72 * _SECOND if settings else 0)
            )
            _settings(axes, settings)
            _reliability(axes, counts, own, columns)  # pyright: ignore[reportArgumentType]
        legend(drawn, second - 0.24, of_ece)
        axes = panel(drawn, (_LEFT, third), (slices.inches, _HIGH))
        title = f"{'abcdefgh'[len(chosen)]}  Expected calibration error (ECE) by slice"
        write_title(axes, title, 14)
        _ece(axes, cells, chosen, slices)
        return drawn


def _chosen(cells: Family) -> list[Chosen]:
    return [*cells.baselines()[:1], *cells.best()[:_MOST]]


def _titled(chosen: Chosen, inches: float) -> tuple[str, str]:
    """Return the name as a title of so many inches, and the settings apart if they do not fit."""
    if chosen.line is None or width(chosen.name, style.HEADING, "bold") <= inches:
        return shorten(chosen.name, inches, style.HEADING), ""
    settings = chosen.name.removeprefix(f"{chosen.line.rule}, ")
    rule = shorten(chosen.line.rule, inches, style.HEADING)
    return rule, shorten(settings, inches + 0.1, style.TEXT)


def _settings(axes: Axes, settings: str) -> None:
    axes.annotate(settings, (0, 1), xycoords="axes fraction", xytext=(0, 2 + 72 * _SECOND),
                  textcoords="offset points", va="bottom", fontsize=style.TEXT, color=style.INK,
                  gid="settings")  # fmt: skip


def _square(
    drawn: style.Page, corner: tuple[float, float], square: float, *, first: bool
) -> tuple[Axes, Axes]:
    """Return axes for accuracy against confidence, and below them axes for where the latter lie."""
    axes = panel(drawn, corner, (square, square))
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1])
    axes.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.8, zorder=1)
    counts = panel(drawn, (corner[0], corner[1] + square + 0.06), (square, _COUNTS))
    counts.set(xlim=(0, 1), ylim=(0, 1), yticks=[], xticks=[0, 0.5, 1])
    counts.grid(visible=False)
    axes.tick_params(labelbottom=False, labelleft=first)
    label(counts, x="confidence", y="share" if first else "")
    label(axes, y="accuracy" if first else "")
    return axes, counts


def _reliability(
    axes: Axes, counts: Axes, own: pd.DataFrame, columns: Sequence[SliceColumn]
) -> None:
    if own.empty:
        note(axes, "no predictions")
        return
    inside = membership(own, columns)
    told: list[str] = []
    for name, looks in _PARTS.items():
        chosen = _part(columns, name)
        part = own.loc[inside[:, chosen].any(axis=1), :] if chosen else own.iloc[:0]
        if part.empty:
            continue
        _curve(axes, counts, part, name, looks)
        told.append(f"{name} n = {part['example'].nunique()}")
    axes.annotate(", ".join(told), (0, 1), xycoords="axes fraction", xytext=(0, 2), va="bottom",
                  textcoords="offset points", fontsize=style.TEXT, color=style.MUTED,
                  gid="n")  # fmt: skip


def _curve(axes: Axes, counts: Axes, part: pd.DataFrame, name: str, looks: dict[str, Any]) -> None:
    found = reliability(part)
    told = found.loc[found["lo"].notna(), :]
    few = found.loc[found["lo"].isna() & (found["n"] > 0), :]
    hollow: dict[str, Any] = {"linestyle": "", "markerfacecolor": "none"}
    full: dict[str, Any] = {}
    for part_of, more in ((told, full), (few, hollow)):
        if len(part_of):
            axes.plot(part_of["confidence"], part_of["accuracy"], linewidth=1, markersize=3.4,
                      zorder=3, clip_on=False, gid=f"{name}, few" if more else name,
                      **(looks | more))  # fmt: skip
    axes.vlines(told["confidence"], told["lo"], told["hi"], color=looks["color"], linewidth=0.9)
    edges = np.linspace(0, 1, len(found) + 1)
    share = found["n"].to_numpy(float) / found["n"].sum()
    counts.stairs(share, edges, color=looks["color"], linewidth=1, gid=name)


def _part(columns: Sequence[SliceColumn], name: str) -> list[int]:
    """Return the places of the slices that are the tail or its opposite: bands, or else labels."""
    for kind in ("rarity", "label"):
        own = [place for place, column in enumerate(columns) if column.kind == kind]
        tails = [place for place in own if columns[place].tail]
        if tails:
            if name == "tail":
                return tails
            heads = [place for place in own if columns[place].name.lower() == "head"]
            return heads or [place for place in own if place not in tails]
    return [0] if name == "head" and columns else []


def _ece(axes: Axes, cells: Family, chosen: Sequence[Chosen], slices: SliceAxis) -> None:
    draw_slices(axes, slices, None, names=True)
    ece, null = (by_slice(cells.table, slices.columns, m) for m in ("ece", "ece_calibrated"))
    low, high = (_bound(cells.table, slices, name) for name in ("lo", "hi"))
    if not np.isfinite(ece.to_numpy(float)).any():
        note(axes, "no cell has an ECE: too few test examples in every slice")
        return
    step = offsets(len(chosen))
    wide = min(0.2, 0.6 / max(1, len(chosen)))
    for each, offset in zip(chosen, step, strict=True):
        keys = cells.keys([each.condition])
        looks = _looks(cells, each)
        at = slices.at + offset
        calibrated = _over_seeds(null, keys)
        axes.bar(at, calibrated, wide, color=_CALIBRATED["color"], linewidth=0, zorder=1.5,
                 gid=f"calibrated {each.name}")  # fmt: skip
        interval = (_over_seeds(low, keys), _over_seeds(high, keys))
        estimates(axes, at, _over_seeds(ece, keys), interval, looks, each.name)
        for seed in ece.loc[keys].to_numpy(float):
            axes.plot(at, seed, linestyle="", marker=".", markersize=2, color=style.INK,
                      alpha=0.6, gid="seeds", zorder=3.5)  # fmt: skip
    axes.set_ylim(bottom=0)
    label(axes, y="ECE (15 bins)")


def _bound(table: pd.DataFrame, slices: SliceAxis, name: str) -> pd.DataFrame:
    return by_slice(table.assign(value=table[name]), slices.columns, "ece")


def _over_seeds(values: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
    rows = values.loc[list(keys)].to_numpy(float)
    return np.array([t_interval_of(column)[0] for column in rows.T])


def _looks(cells: Family, chosen: Chosen) -> dict[str, Any]:
    if chosen.line is None:
        return dict(style.BASELINE)
    return style.series(cells.lines.index(chosen.line))


def _of_ece(cells: Family, chosen: Sequence[Chosen]) -> list[Entry]:
    entries = [Entry(each.name, {**_looks(cells, each), "linestyle": ""}) for each in chosen]
    return [*entries, Entry("a calibrated model of this n", dict(_CALIBRATED))]


def _caption(
    cells: Family, chosen: Sequence[Chosen], slices: SliceAxis, columns: Sequence[SliceColumn]
) -> str:
    conditions = [each.condition for each in chosen]
    letter = "abcdefgh"[len(chosen)]
    none = "" if _part(columns, "tail") else "No slice is a tail: all examples are drawn as head"
    own = [
        "Test split; n: examples. Reliability: accuracy of the predictions in ten bins of"
        " confidence, all seeds together; lines: 95 % interval by a bootstrap over the examples,"
        " which seeds share, hollow below 5 examples; below: where the confidences lie",
        none,
        f"{letter}: mean over seeds (dots: seeds), with the mean of each seed's 95 % interval by a"
        " bootstrap over examples. Grey: the ECE that a perfectly calibrated model with these"
        " confidences and this n shows on average; shaded: the tail",
        common_words.best(chosen),
        common_words.at_most(cells.lines, _MOST),
        slices.words,
        common_words.budgets(cells),
    ]
    return common_words.caption(cells, conditions, own)
