"""Reliability diagrams by slice, from a run's predictions on its test split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

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
    try:
        rows = pd.read_parquet(folder / schema.PREDICTIONS_FILE)
    except (OSError, ValueError):  # no such file, or cut short
        return None
    probabilities = [name for name in rows if str(name).startswith(_PROBABILITY)]
    if not probabilities or not {"split", "label"} <= set(rows):
        return None
    rows = rows.loc[rows["split"] == "test", :]
    values = rows[probabilities].to_numpy(float)
    if len(values) == 0:
        return None
    confidence = values.max(axis=1)
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


def _members(rows: pd.DataFrame, column: SliceColumn) -> np.ndarray:
    """Say which rows are in a slice: by the column of its kind, else by one that holds its name.

    A column names one slice a row; where slices overlap it would miss members. So it counts only
    if it has as many as the metrics say; no row is in the slice where no column has.
    """
    if column.kind == "all":
        return np.ones(len(rows), dtype=bool)
    headings = [str(name) for name in rows if str(name).startswith(_SLICE)]
    for name in sorted(headings, key=lambda name: name != f"{_SLICE}{column.kind}"):
        member = (rows[name] == column.name).fillna(value=False).to_numpy(bool)
        if member.any() and column.n_low <= member.sum() <= column.n_high:
            return member
    return np.zeros(len(rows), dtype=bool)
