"""Reliability diagrams by slice, from a run's predictions on its test split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from analysis import schema
from analysis.slices import SliceColumn

BINS = 10
_PROBABILITY, _SLICE = "probability_", "slice_"


def reliability(folders: Sequence[Path], columns: Sequence[SliceColumn]) -> np.ndarray | None:
    """Return ``[slice, 3, BINS]``: in each bin of confidence the mean number of examples a run,
    their mean confidence and accuracy over all runs (NaN where empty); None without predictions.
    """
    sums = [found for folder in folders if (found := _sums(folder, columns)) is not None]
    if not sums:
        return None
    total = np.sum(sums, axis=0)
    count = total[:, 0]
    filled = np.where(count > 0, count, np.nan)
    return np.stack([count / len(sums), total[:, 1] / filled, total[:, 2] / filled], axis=1)


def _sums(folder: Path, columns: Sequence[SliceColumn]) -> np.ndarray | None:
    rows = _tested(folder / schema.PREDICTIONS_FILE)
    if rows is None:
        return None
    probabilities = [name for name in rows.column_names if name.startswith(_PROBABILITY)]
    values = np.stack([rows[name].to_numpy() for name in probabilities], axis=1)
    confidence = values.max(axis=1).astype(float)
    right = values.argmax(axis=1) == rows["label"].to_numpy()
    # Bins are (b − 1, b]/BINS, so that a confidence of exactly 1 is in the last.
    bins = np.searchsorted(np.arange(1, BINS) / BINS, confidence, side="left")
    found = np.zeros((len(columns), 3, BINS))
    for place, column in enumerate(columns):
        member = _members(rows, column)
        weights = (None, confidence[member], right[member].astype(float))
        for row, weight in enumerate(weights):
            found[place, row] = np.bincount(bins[member], weight, minlength=BINS)
    return found


def _tested(path: Path) -> pa.Table | None:
    """Return the rows of the test split; None without any, or without probabilities."""
    try:
        rows = parquet.read_table(path)
    except (OSError, ValueError):  # no such file, or cut short
        return None
    names = rows.column_names
    if not {"split", "label"} <= set(names) or not any(n.startswith(_PROBABILITY) for n in names):
        return None
    rows = rows.filter(pa.array([split == "test" for split in rows["split"].to_pylist()]))
    return rows if rows.num_rows else None


def _members(rows: pa.Table, column: SliceColumn) -> np.ndarray:
    """Say which rows are in a slice: by the column of its kind, else by one that holds its name.

    A column names one slice a row; where slices overlap it would miss members. So it counts only
    if it has as many as the metrics say; no row is in the slice where no column has.
    """
    if column.kind == "all":
        return np.ones(rows.num_rows, dtype=bool)
    headings = [name for name in rows.column_names if name.startswith(_SLICE)]
    for name in sorted(headings, key=lambda name: name != f"{_SLICE}{column.kind}"):
        member = np.array([entry == column.name for entry in rows[name].to_pylist()])
        if member.any() and column.n_low <= member.sum() <= column.n_high:
            return member
    return np.zeros(rows.num_rows, dtype=bool)
