"""From cells to conditions: each cell against its own baseline, then mean and spread over seeds."""

from __future__ import annotations

import pandas as pd

from analysis.conditions import conditions

_PLACE = ("split", "slice_kind", "slice", "metric")


def against_baseline(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return ``rows`` with ``baseline_value`` and ``difference`` = value − baseline value.

    A cell is compared with the one run that its ``baseline_key`` names, which has its seed: they
    share initial weights and test examples, but batches and noise are each run's own. Both columns
    are NaN where that run is not in ``table`` or has no value there.
    """
    baselines = list(table["baseline_key"].dropna().unique())
    place = list(_PLACE)
    of = table.loc[table["run_key"].isin(baselines), ["run_key", *place, "value"]]
    of = of.rename(columns={"run_key": "baseline_key", "value": "baseline_value"})
    paired = rows.merge(of, on=["baseline_key", *place], how="left", validate="many_to_one")
    return paired.assign(difference=paired["value"] - paired["baseline_value"])


def unpaired(table: pd.DataFrame) -> list[str]:
    """Return the run keys of the cells whose baseline is not in the table, in its order."""
    cells = table.drop_duplicates("run_key")
    found = cells["baseline_key"].isin(list(cells["run_key"]))
    return list(cells.loc[~found, "run_key"])


def over_seeds(rows: pd.DataFrame, named: pd.DataFrame, column: str = "value") -> pd.DataFrame:
    """Return mean and spread of ``column`` over the cells of each condition, by slice.

    ``named`` is what ``conditions`` returned. Columns: ``condition``, ``split``, ``slice_kind``,
    ``slice``, ``metric``, ``mean``, ``sd`` (of a sample, ddof 1; NaN below two values), ``low``,
    ``high`` and ``seeds``, the number of different seeds that have a value. Cells without a value
    do not count; where none has one, mean is NaN and ``seeds`` 0.
    """
    rows = rows.merge(named[["run_key", "condition", "replicate"]], on="run_key")
    rows = rows.assign(replicate=rows["replicate"].where(rows[column].notna()))
    by_place = rows.groupby(["condition", *_PLACE], sort=False)
    return by_place.agg(
        mean=(column, "mean"),
        sd=(column, "std"),
        low=(column, "min"),
        high=(column, "max"),
        seeds=("replicate", "nunique"),
    ).reset_index()


def aggregate(table: pd.DataFrame) -> pd.DataFrame:
    """Return every metric of the table over seeds: ``over_seeds`` with the names of the rows."""
    named = conditions(table)
    names = named.drop(columns=["run_key", "replicate"]).drop_duplicates("condition")
    return over_seeds(table, named).merge(names, on="condition")
