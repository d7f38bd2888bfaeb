"""``gradients.parquet`` of a run: a sample of its units, with norms of their whole gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis import schema

PLANE = ("projection_1", "projection_2")
BEFORE, AFTER = "norm_before", "norm_after"


def read_gradients(path: Path) -> pd.DataFrame | None:
    """Return the rows of a file, with ``norm_before`` and ``norm_after`` of the whole gradient
    (over all clip groups together) beside those of the groups.

    A ``weight`` that is missing is 1, a ``side`` or ``norm_after`` nothing. None for a file that is
    missing, cut short, or of other columns.
    """
    try:
        rows = pd.read_parquet(path)
    except (OSError, ValueError):
        return None
    if not {"step", *PLANE} <= set(rows) or not _groups(rows, schema.NORM_BEFORE):
        return None
    absent = {"weight": 1.0, "side": None, "threshold": np.nan}
    rows = rows.assign(**{name: value for name, value in absent.items() if name not in rows})
    whole = {BEFORE: _whole(rows, schema.NORM_BEFORE), AFTER: _whole(rows, schema.NORM_AFTER)}
    return rows.assign(**whole)


def is_of(rows: pd.DataFrame, side: str) -> np.ndarray:
    """Return ``[rows]`` bool: which units are of the ``side`` head or tail."""
    return np.array([value == side for value in rows["side"].astype(object).to_numpy()], dtype=bool)


def _groups(rows: pd.DataFrame, start: str) -> list[str]:
    return [str(name) for name in rows if str(name).startswith(start)]


def _whole(rows: pd.DataFrame, start: str) -> np.ndarray:
    groups = _groups(rows, start)
    if not groups:
        return np.full(len(rows), np.nan)
    return np.sqrt(np.square(rows[groups].to_numpy(float)).sum(axis=1))
