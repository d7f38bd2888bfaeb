"""Which examples of ``predictions.parquet`` are in which slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.slices import SliceColumn

_PREFIX = "slice_"


def membership(predictions: pd.DataFrame, columns: Sequence[SliceColumn]) -> np.ndarray:
    """Return boolean ``[examples, slices]``; a slice that no column names has no examples.

    A slice's name is looked for in the column of its kind, and where there is none in the others:
    a column may be called by the key that the kind has in the configuration.
    """
    found = np.zeros((len(predictions), len(columns)), dtype=bool)
    for place, column in enumerate(columns):
        if column.kind == "all":
            found[:, place] = True
            continue
        for name in _headings(predictions, column.kind):
            inside = (predictions[name] == column.name).fillna(value=False).to_numpy(dtype=bool)
            if inside.any():
                found[:, place] = inside
                break
    return found


def _headings(predictions: pd.DataFrame, kind: str) -> list[str]:
    own = f"{_PREFIX}{kind}"
    names = [str(name) for name in predictions if str(name).startswith(_PREFIX)]
    if own in names:
        return [own]
    return [name for name in names if name not in (f"{_PREFIX}label", f"{_PREFIX}rarity")]
