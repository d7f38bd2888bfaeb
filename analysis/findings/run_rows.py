"""Values of runs as plain arrays: a row a run, looked up by run key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.measures import by_slice
from analysis.slices import SliceColumn


@dataclass(frozen=True)
class RunRows:
    """``values`` ``[runs, columns]``; ``places`` has the row of every run key."""

    places: Mapping[str, int]
    values: np.ndarray

    def of(self, keys: Sequence[str]) -> np.ndarray:
        """Return ``[keys, columns]``, NaN for runs that are not there."""
        found = np.full((len(keys), self.values.shape[1]), np.nan)
        for row, key in enumerate(keys):
            place = self.places.get(key)
            if place is not None:
                found[row] = self.values[place]
        return found

    def have(self, keys: Iterable[str]) -> bool:
        """Say whether every run is there."""
        return all(key in self.places for key in keys)


def slice_rows(
    table: pd.DataFrame, columns: Sequence[SliceColumn], metric: str, splits: Sequence[str]
) -> RunRows:
    """Return a metric by run and slice, from whichever of the splits a run has it in."""
    rows = table.loc[(table["metric"] == metric) & table["split"].isin(list(splits)), :]
    wide = by_slice(rows.assign(split="test"), columns, metric)
    return RunRows(_numbered(wide.index), wide.to_numpy(float))


def example_rows(predictions: pd.DataFrame, values: np.ndarray) -> RunRows:
    """Return one value an example of the predictions, in the order of ``example``; without the
    runs that lack an example of others.
    """
    if predictions.empty:
        return RunRows({}, np.zeros((0, 0)))
    own = predictions.assign(value=values)
    wide = own.pivot(index="run_key", columns="example", values="value").dropna(axis=0)
    return RunRows(_numbered(wide.index), wide.to_numpy(float))


def _numbered(index: pd.Index) -> dict[str, int]:
    return {str(key): place for place, key in enumerate(index)}
