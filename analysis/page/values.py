"""Every metric of a family over seeds, as dense columns: a number a condition and slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis import schema
from analysis.page.metrics import OVERALL, Shown
from analysis.page.numbers import column
from analysis.slices import SliceColumn
from analysis.table import against_baseline

_LEVEL = 0.975


def block(
    table: pd.DataFrame,
    conditions: pd.DataFrame,
    places: Sequence[int],
    columns: Sequence[SliceColumn],
    of: Shown,
) -> dict[str, Any] | None:
    """Return ``of`` for the conditions ``places`` × the slices ``columns``; None where it has no
    value at all.

    ``conditions`` is what ``conditions`` returned. Every array has a number for each condition and
    slice, conditions outside: ``mean`` over seeds; ``low`` and ``high``, its 95 % interval over
    seeds (t distribution; null with one seed); ``from`` and ``to``, the mean of the seeds' own
    intervals over examples (or under the noise of an accounted count); ``seeds``; and ``n``, the
    mean over seeds.
    """
    rows = _rows(table, of)
    if of.change:
        rows = against_baseline(rows, table).assign(lo=np.nan, hi=np.nan)
        rows["value"] = rows["difference"].where(
            rows["run_key"] != rows["baseline_key"], rows["value"]
        )
    keys = [(place, slice_.kind, slice_.name) for place in places for slice_ in columns]
    found = _over_seeds(rows, conditions).reindex(pd.MultiIndex.from_tuples(keys))
    if np.isnan(found["mean"].to_numpy(float)).all():
        return None
    return _packed(found, share=of.share)


def overall(
    table: pd.DataFrame, conditions: pd.DataFrame, places: Sequence[int], split: str
) -> dict[str, Any]:
    """Return the metrics of whole cells, by name, as ``block`` does with one slice."""
    blocks: dict[str, Any] = {}
    for metric in OVERALL:
        rows = table.loc[(table["metric"] == metric) & (table["split"] == split), :]
        rows = rows.loc[rows["slice_kind"] == "all", :]
        keys = [(place, "all", "all") for place in places]
        found = _over_seeds(rows, conditions).reindex(pd.MultiIndex.from_tuples(keys))
        if np.isfinite(found["mean"].to_numpy(float)).any():
            blocks[metric] = _packed(found, share=True)
    return blocks


def calibrated(
    table: pd.DataFrame,
    conditions: pd.DataFrame,
    places: Sequence[int],
    columns: Sequence[SliceColumn],
    split: str,
) -> dict[str, Any] | None:
    """Return the mean ECE that calibrated models of these confidences would show, as ``block``."""
    of = Shown("ece_calibrated", split, "", "", "", "")
    packed = block(table, conditions, places, columns, of)
    return None if packed is None else {"mean": packed["mean"]}


def _rows(table: pd.DataFrame, of: Shown) -> pd.DataFrame:
    # What stood in for the training records is in the place of theirs: no run has both.
    splits = [of.split, schema.PROBE] if of.split == "train" else [of.split]
    return table.loc[(table["metric"] == of.metric) & table["split"].isin(splits), :]


def _over_seeds(rows: pd.DataFrame, conditions: pd.DataFrame) -> pd.DataFrame:
    rows = rows.merge(conditions[["run_key", "condition"]], on="run_key")
    counted = rows["value"].notna()
    rows = rows.assign(lo=rows["lo"].where(counted), hi=rows["hi"].where(counted))
    by = ["condition", "slice_kind", "slice"]
    return rows.groupby(by, sort=False).agg(
        mean=("value", "mean"), sd=("value", "std"), seeds=("value", "count"),
        lo=("lo", "mean"), hi=("hi", "mean"), n=("n", "mean"),
    )  # fmt: skip


def _packed(found: pd.DataFrame, *, share: bool) -> dict[str, Any]:
    seeds = found["seeds"].fillna(0).to_numpy(float)
    mean, sd = found["mean"].to_numpy(float), found["sd"].to_numpy(float)
    several = seeds > 1
    reach = np.full(len(mean), np.nan)
    reach[several] = stats.t.ppf(_LEVEL, seeds[several] - 1) * sd[several]
    reach[several] /= np.sqrt(seeds[several])
    low, high = mean - reach, mean + reach
    if share:
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    packed = {
        "mean": column(mean),
        "low": column(low),
        "high": column(high),
        "from": column(found["lo"].to_numpy(float)),
        "to": column(found["hi"].to_numpy(float)),
        "seeds": column(seeds),
        "n": column(found["n"].fillna(0).to_numpy(float)),
    }
    return {name: _short(values) for name, values in packed.items()}


def _short(values: list[Any]) -> Any:
    """Return one value where all are the same: the page reads both."""
    return values[0] if len(set(values)) == 1 else values
