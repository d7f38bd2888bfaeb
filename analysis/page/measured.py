"""Measured gradients of finished runs, for the lab: norms and a projection onto a plane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import schema
from analysis.gradient_file import BEFORE, PLANE, is_of, read_gradients
from analysis.page.numbers import column

GRADIENTS_FILE = schema.GRADIENTS_FILE

MOST_RUNS, MOST_POINTS, MOST_STEPS = 16, 300, 3


def measured(folders: Sequence[tuple[str, Path]], tails: frozenset[str]) -> list[dict[str, Any]]:
    """Return a sample of each run's gradients, of at most ``MOST_RUNS`` runs; none without any.

    ``folders`` are pairs of a name for the reader and a run folder. Of a run, up to ``MOST_STEPS``
    steps each make an entry with ``run``, ``step``, the plane's ``x`` and ``y``, ``norm`` (of the
    whole gradient, before clipping), ``rare`` (1 for units of the tail, as the file says, or else
    for those in a slice named in ``tails``) and ``weight``: how many units each stands for.
    """
    found: list[dict[str, Any]] = []
    with_file = [(run, at) for run, at in folders if (at / GRADIENTS_FILE).exists()]
    for run, folder in with_file[:MOST_RUNS]:
        rows = _rows(folder / GRADIENTS_FILE)
        if rows is None:
            continue
        for step in _spread(sorted(rows["step"].unique())):
            sample = _sample(rows.loc[rows["step"] == step, :], tails)
            found.append({"run": run, "step": int(step), **sample})
    return found


def _rows(path: Path) -> pd.DataFrame | None:
    """Return the rows with every value in place; None for a file that is cut short or differs."""
    rows = read_gradients(path)
    if rows is None:
        return None
    return rows.loc[np.isfinite(rows[[BEFORE, *PLANE]].to_numpy(float)).all(axis=1), :]


def _sample(rows: pd.DataFrame, tails: frozenset[str]) -> dict[str, Any]:
    rare = is_of(rows, "tail").astype(int)
    if not (rare.any() or is_of(rows, "head").any()):
        for name in rows:
            if str(name).startswith(schema.SLICE_COLUMN):
                rare |= rows[name].isin(list(tails)).to_numpy(int)
    # Rare examples first: a sample must not lose them.
    order = np.argsort(-rare, kind="stable")
    picked = order if len(order) <= MOST_POINTS else _thinned(order, int(rare.sum()))
    return {
        "x": column(rows["projection_1"].to_numpy(float)[picked]),
        "y": column(rows["projection_2"].to_numpy(float)[picked]),
        "norm": column(rows[BEFORE].to_numpy(float)[picked]),
        "weight": column(rows["weight"].to_numpy(float)[picked]),
        "rare": rare[picked].tolist(),
        "records": len(rows),
    }


def _thinned(order: np.ndarray, rare: int) -> np.ndarray:
    """Return ``MOST_POINTS`` of the rows, as many of them rare as in all (one at least)."""
    some = max(1, round(MOST_POINTS * rare / len(order))) if rare else 0
    return np.concatenate([order[:some], order[rare : rare + MOST_POINTS - some]])


def _spread(steps: Sequence[int]) -> list[int]:
    if len(steps) <= MOST_STEPS:
        return list(steps)
    return [steps[0], steps[len(steps) // 2], steps[-1]]
