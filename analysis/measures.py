"""One number a run for each thing that a figure shows, and its mean over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.interval import SHARE, Range, t_interval
from analysis.lettering import one_line
from analysis.slices import SliceColumn


@dataclass(frozen=True)
class Measure:
    """``values``: one a run, by run key; ``n`` the smallest and largest number of examples.

    ``half`` is half the 95 % interval of one run's value by the examples of the split, the mean
    over runs; NaN where the cells have none.
    """

    name: str
    values: pd.Series
    n: tuple[int, int]
    half: float

    @property
    def n_text(self) -> str:
        """n, or from the smallest to the largest."""
        low, high = self.n
        return f"n = {low}" if low == high else f"n = {low}–{high}"


def rare_recall(
    table: pd.DataFrame, columns: Sequence[SliceColumn], split: str = "test"
) -> Measure | None:
    """Return recall, averaged over the labels of the tail; None where no label is in the tail."""
    rare = [column.name for column in columns if column.kind == "label" and column.tail]
    if not rare:
        return None
    rows = _rows(table, "recall", split)
    rows = rows.loc[(rows["slice_kind"] == "label") & rows["slice"].isin(rare)]
    named = one_line(rare[0]) if len(rare) == 1 else f"{len(rare)} rare labels"
    return _measure(f"Recall on {named}", rows)


def overall(table: pd.DataFrame, metric: str, name: str, split: str = "test") -> Measure | None:
    """Return a metric of all examples; None where no cell has a value."""
    rows = _rows(table, metric, split)
    return _measure(name, rows.loc[rows["slice_kind"] == "all"])


def over_conditions(
    values: pd.Series, named: pd.DataFrame, within: Range = SHARE
) -> pd.DataFrame:  # fmt: skip
    """Return ``mean``, ``sd``, ``seeds``, ``lo`` and ``hi`` of one value a run, by condition.

    ``lo`` and ``hi`` are the 95 % interval of the mean over seeds, by Student's t, cut to
    ``within``: what a value can be.
    """
    rows = named.assign(value=named["run_key"].map(values.to_dict()).astype("float64"))  # pyright: ignore[reportArgumentType]
    rows = rows.assign(replicate=rows["replicate"].where(rows["value"].notna()))
    found = rows.groupby("condition").agg(
        mean=("value", "mean"), sd=("value", "std"), seeds=("replicate", "nunique")
    )
    mean, sd, seeds = (found[name].to_numpy(float) for name in ("mean", "sd", "seeds"))
    lo, hi = t_interval(mean, sd, seeds, within)
    return found.assign(lo=lo, hi=hi)


def by_slice(table: pd.DataFrame, columns: Sequence[SliceColumn], metric: str) -> pd.DataFrame:
    """Return a metric of the test split as ``[runs, slices]``, NaN where a run has no value.

    Columns are (kind, name) in the order of ``columns``; the index holds run keys.
    """
    rows = _rows(table, metric, "test")
    wide = rows.pivot(index="run_key", columns=["slice_kind", "slice"], values="value")
    every = pd.MultiIndex.from_tuples([(column.kind, column.name) for column in columns])
    keys = table["run_key"].drop_duplicates()
    return wide.reindex(index=pd.Index(keys), columns=every)


def _rows(table: pd.DataFrame, metric: str, split: str) -> pd.DataFrame:
    return table.loc[(table["metric"] == metric) & (table["split"] == split), :]


def _measure(name: str, rows: pd.DataFrame) -> Measure | None:
    rows = rows.loc[rows["value"].notna(), :]
    if rows.empty:
        return None
    values = rows.groupby("run_key")["value"].mean()
    examples = rows.groupby("run_key")["n"].sum()
    half = ((rows["hi"] - rows["lo"]) / 2).to_numpy(float)
    half = float(half[np.isfinite(half)].mean()) if np.isfinite(half).any() else float("nan")
    return Measure(name, values, (int(examples.min()), int(examples.max())), half)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue, reportCallIssue]
