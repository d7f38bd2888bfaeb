"""Norms before and after clipping through training, by slice, from a run's telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import schema
from analysis.slices import SliceColumn

_SIDES = ("before", "after")
_PREFIXES = ("", f"{schema.PROBE}_")


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
    arrays = [_quantiles(run, columns, steps) for run in runs]
    return {
        "step": steps,
        "quantiles": _mean(np.stack(arrays)),
        "threshold": _mean(np.stack([_threshold(run, steps) for run in runs])),
        "release": str(runs[0]["release"].iloc[0]),
        "runs": len(runs),
    }


def _telemetry(folder: Path) -> pd.DataFrame | None:
    wanted = [f"{p}norm_{side}_q{q}" for p in _PREFIXES for side in _SIDES for q in schema.QUANTILES]
    names = ["step", "slice_kind", "slice", "group", "stat", "value", "release"]
    try:
        rows = pd.read_parquet(folder / schema.TELEMETRY_FILE, columns=names)
    except (OSError, ValueError):  # no such file, cut short, or of other columns
        return None
    own = rows["stat"].isin([*wanted, "threshold"]) & (rows["group"] == schema.GROUP_ALL)
    rows = rows.loc[own, :]
    norms = rows["stat"] != "threshold"
    return rows if norms.any() else None


def _steps(rows: pd.DataFrame, windows: int) -> list[int]:
    steps = np.sort(rows["step"].unique())
    picked = np.unique(np.linspace(0, len(steps) - 1, min(windows, len(steps))).round().astype(int))
    return [int(step) for step in steps[picked]]


def _quantiles(
    rows: pd.DataFrame, columns: Sequence[SliceColumn], steps: Sequence[int]
) -> np.ndarray:
    stats = rows["stat"].str.removeprefix(_PREFIXES[1])
    values = rows.assign(stat=stats).set_index(["slice_kind", "slice", "stat", "step"])["value"]
    values = values[~values.index.duplicated()]
    every = [
        (column.kind, column.name, f"norm_{side}_q{quantile}", step)
        for column in columns
        for side in _SIDES
        for quantile in schema.QUANTILES
        for step in steps
    ]
    found = values.reindex(pd.MultiIndex.from_tuples(every)).to_numpy(float)
    return found.reshape(len(columns), len(_SIDES), len(schema.QUANTILES), len(steps))


def _threshold(rows: pd.DataFrame, steps: Sequence[int]) -> np.ndarray:
    own = rows.loc[rows["stat"] == "threshold", :].drop_duplicates("step").set_index("step")
    return own["value"].reindex(list(steps)).to_numpy(float)


def _mean(stacked: np.ndarray) -> np.ndarray:
    known = np.isfinite(stacked)
    count = known.sum(axis=0)
    total = np.where(known, stacked, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
