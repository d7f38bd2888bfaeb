"""The rows of the maps as a table, for reading beside them: every setting that differs, in full."""

from __future__ import annotations

from itertools import chain

import pandas as pd

from analysis.conditions import conditions


def row_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per condition, in the order of the map of these cells.

    Columns: ``part``, ``rule``, ``mechanism``, ``shown_epsilon``, ``clip_norm``, ``seeds``
    (how many), every setting that differs (empty where it cannot matter), and ``run_keys``.
    """
    named = conditions(table).sort_values(["condition", "run_key"])
    runs = named.groupby("condition", sort=True).agg(
        seeds=("replicate", "nunique"), run_keys=("run_key", " ".join)
    )
    first = named.drop_duplicates("condition").set_index("condition").join(runs)
    told = [
        dict(word.split("=", 1) for word in (*heading, *settings))
        for heading, settings in zip(first["heading"], first["settings"], strict=True)
    ]
    names = [*_NAMES, *(key for key in dict.fromkeys(chain(*told)) if key not in _NAMES)]
    rows = [dict(zip(_NAMES, row, strict=True)) for row in first[list(_NAMES)].to_numpy(object)]
    found = pd.DataFrame(
        [row | words for row, words in zip(rows, told, strict=True)], columns=names
    )
    return found.assign(run_keys=first["run_keys"].to_numpy())


_NAMES = ("part", "rule", "mechanism", "shown_epsilon", "clip_norm", "seeds")
