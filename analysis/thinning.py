"""Which rows of very many the map draws: a page of 2,000 rows shows nothing."""

from __future__ import annotations

import pandas as pd

from analysis.conditions import conditions
from analysis.lines import Line, main_epsilon, private_lines
from analysis.wording import epsilon_text

MOST_ROWS = 40
"""The rows that fit on a page, of which each panel has one."""


def for_map(table: pd.DataFrame, most: int = MOST_ROWS) -> tuple[pd.DataFrame, str]:
    """Return the cells of about ``most`` rows at most of a map, and what was left out in words.

    Beyond that, only baselines and the private cells at the ε with the most of them; if that is too
    many still, of every rule only the smallest, the best (by validation) and the largest C; and
    then as many rules as there is room for. All rows are in ``map.csv``.
    """
    named = conditions(table)
    number = named["condition"].nunique()
    if number <= most:  # pyright: ignore[reportGeneralTypeIssues]
        return table, ""
    epsilon = main_epsilon(named)
    lines = [line for line in private_lines(table, named) if line.epsilon == epsilon]
    baselines = set(named.loc[named["part"] == "baseline", "condition"].head(most // 4))
    told = f"the baselines and private cells at {epsilon_text(epsilon)}"
    kept = [condition for line in lines for condition in line.conditions]
    if len(kept) > most:
        kept = [condition for line in lines for condition in _ends(line)][:most]
        told += ", of every rule the smallest, the best (by validation) and the largest C"
    chosen = baselines | set(kept)
    keys = named.loc[named["condition"].isin(list(chosen)), "run_key"]
    if keys.empty:  # nothing is private, and no baseline: the first rows there are
        keys = named.loc[named["condition"] < most, "run_key"]
        told = f"the first {most}"
    left = table.loc[table["run_key"].isin(list(keys)), :]
    shown = named.loc[named["run_key"].isin(list(keys)), "condition"].nunique()
    return left, f"{shown} of {number} rows are drawn: {told}; all of them are in map.csv"


def _ends(line: Line) -> list[int]:
    chosen = {line.conditions[0], line.conditions[-1], line.best}
    return [condition for condition in line.conditions if condition in chosen]
