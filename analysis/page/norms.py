"""Norms before and after clipping through training, by slice, from a run's telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from analysis import schema
from analysis.slices import SliceColumn

_SIDES = ("before", "after")
_STATS = {
    f"{prefix}norm_{side}_q{quantile}": (s, q)
    for prefix in ("", f"{schema.PROBE}_")
    for s, side in enumerate(_SIDES)
    for q, quantile in enumerate(schema.QUANTILES)
}
_THRESHOLD = "threshold"
_COLUMNS = ("step", "slice_kind", "slice", "group", "stat", "value", "release")


@dataclass(frozen=True)
class _Run:
    """Rows of one run that are of norms or thresholds: (step, kind, slice, stat, value)."""

    rows: list[tuple[int, str, str, str, float]]
    release: str


def norm_windows(
    folders: Sequence[Path], columns: Sequence[SliceColumn], windows: int
) -> dict[str, Any] | None:
    """Return the quantiles of norms, means over the runs in ``folders``; None without telemetry.

    ``step`` is ``[w]`` with w ≤ ``windows``, ``threshold`` ``[w]``; ``quantiles`` is ``[slice,
    side, quantile, w]``, NaN where there is none. ``release`` is that of the norms.
    """
    runs = [run for folder in folders if (run := _telemetry(folder)) is not None]
    if not runs:
        return None
    steps = _steps(runs[0], windows)
    arrays = [_arrays(run, columns, steps) for run in runs]
    return {
        "step": steps,
        "quantiles": _mean(np.stack([quantiles for quantiles, _ in arrays])),
        "threshold": _mean(np.stack([threshold for _, threshold in arrays])),
        "release": runs[0].release,
        "runs": len(runs),
    }


def _telemetry(folder: Path) -> _Run | None:
    try:
        table = parquet.read_table(folder / schema.TELEMETRY_FILE, columns=list(_COLUMNS))
    except (OSError, ValueError):  # no such file, cut short, or of other columns
        return None
    if set(table.column_names) != set(_COLUMNS):
        return None
    found = table.to_pydict()
    rows: list[tuple[int, str, str, str, float]] = []
    release = ""
    for step, kind, name, group, stat, value, released in zip(
        *(found[column] for column in _COLUMNS), strict=True
    ):
        if group != schema.GROUP_ALL or value is None:
            continue
        if stat in _STATS:
            release = released
            rows.append((step, kind, name, stat, value))
        elif stat == _THRESHOLD:
            rows.append((step, kind, name, stat, value))
    return _Run(rows, str(release)) if release else None


def _steps(run: _Run, windows: int) -> list[int]:
    steps = sorted({row[0] for row in run.rows})
    picked = np.linspace(0, len(steps) - 1, min(windows, len(steps))).round().astype(int)
    return [steps[place] for place in dict.fromkeys(picked.tolist())]


def _arrays(
    run: _Run, columns: Sequence[SliceColumn], steps: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    place_of = {(column.kind, column.name): place for place, column in enumerate(columns)}
    window_of = {step: place for place, step in enumerate(steps)}
    shape = (len(columns), len(_SIDES), len(schema.QUANTILES), len(steps))
    quantiles, threshold = np.full(shape, np.nan), np.full(len(steps), np.nan)
    for step, kind, name, stat, value in run.rows:
        window = window_of.get(step)
        if window is None:
            continue
        if stat == _THRESHOLD:
            threshold[window] = value
        elif (kind, name) in place_of:
            quantiles[place_of[kind, name], *_STATS[stat], window] = value
    return quantiles, threshold


def _mean(stacked: np.ndarray) -> np.ndarray:
    known = np.isfinite(stacked)
    count = known.sum(axis=0)
    total = np.where(known, stacked, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
