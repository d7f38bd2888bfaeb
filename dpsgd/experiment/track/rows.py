"""Tables of a run folder as MLflow's series: (name, value, step)."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from analysis import schema

Rows = list[tuple[str, float, int]]

_SERIES = (
    *("clip_fraction", "kept", "cosine", "relative_length", "noise_norm", "snr", "dropped"),
    *("probe_clip_fraction", "probe_kept"),
)


def series(folder: Path) -> Rows:
    """Return telemetry over time; private rows are named so."""
    file = folder / schema.TELEMETRY_FILE
    if not file.exists():
        return []
    table = pd.read_parquet(file)
    table = table[(table["group"] == schema.GROUP_ALL) & table["value"].notna()]
    found: Rows = []
    columns = ("stat", "slice_kind", "slice", "release", "value", "step")
    rows = zip(*(table[column].tolist() for column in columns), strict=True)
    for stat, kind, slice_name, release, value, step in rows:
        if stat == "loss" and kind == schema.GROUP_ALL:
            name = "train/loss"
        elif stat in _SERIES:
            by_slice = (*schema.STATS_BY_SLICE, *schema.STATS_OF_PROBE)
            where = f"/{kind}/{slice_name}" if stat in by_slice else ""
            name = f"private/{stat}{where}" if release == "private" else f"{stat}{where}"
        else:
            continue
        if math.isfinite(value):
            found.append((name, value, step))
    return found


def looks(folder: Path) -> Rows:
    """Return the scores by which training was decided."""
    file = folder / schema.EVALUATION_FILE
    if not file.exists():
        return []
    table = pd.read_parquet(file)
    table = table[table["metric"] == schema.LOOK]
    columns = ("split", "metric", "release", "value", "step")
    rows = zip(*(table[column].tolist() for column in columns), strict=True)
    return [
        (f"private/{split}/{name}" if release == "private" else f"{split}/{name}", value, step)
        for split, name, release, value, step in rows
    ]
