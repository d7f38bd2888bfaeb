"""The rows of the maps as a table, for reading beside them: every setting that differs, in full."""

from __future__ import annotations

import pandas as pd

from analysis.conditions import conditions


def row_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per condition, in the order of the map of these cells.

    Columns: ``part``, ``rule``, ``mechanism``, ``shown_epsilon``, ``clip_norm``, ``seeds``
    (how many), every setting that differs (empty where it cannot matter), and ``run_keys``.
    """
    rows: list[dict[str, object]] = []
    for _, cells in conditions(table).groupby("condition", sort=True):
        first = cells.iloc[0]
        told = dict(word.split("=", 1) for word in (*first["heading"], *first["settings"]))
        rows.append({
            "part": first["part"],
            "rule": first["rule"],
            "mechanism": first["mechanism"],
            "shown_epsilon": first["shown_epsilon"],
            "clip_norm": first["clip_norm"],
            "seeds": cells["replicate"].nunique(),
            **told,
            "run_keys": " ".join(sorted(cells["run_key"])),
        })  # fmt: skip
    names = dict.fromkeys(name for row in rows for name in row if name != "run_keys")
    return pd.DataFrame(rows, columns=[*names, "run_keys"])
