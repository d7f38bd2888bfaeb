"""On what footing a run stands: its guarantee beside ε, its data and its length.

Cells that differ in it are no alternatives, whatever their ε: another δ or unit is another promise,
other records are other data, and an audit puts records of its own among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.wording import plain_number

_COLUMNS = ("unit", "unit_name", "relation", "delta", "n_units", "steps_planned")


@dataclass(frozen=True)
class Footing:
    """``audit`` is the audit's name, empty without one; ``told`` all else, each in own words."""

    audit: str
    told: tuple[str, ...]

    def beside(self, other: Footing) -> str:
        """Return in words what of this footing the other has not."""
        return ", ".join(word for word in self.told if word not in other.told)


def footings(table: pd.DataFrame, named: pd.DataFrame) -> Mapping[int, Footing]:
    """Return the footing of every condition of ``named``; its runs differ in their seed alone."""
    first = named.drop_duplicates("condition")[["run_key", "condition"]]
    rows = first.merge(table.drop_duplicates("run_key"), on="run_key")
    return {int(row["condition"]): _of(row) for _, row in rows.iterrows()}  # pyright: ignore[reportArgumentType]


def _of(row: pd.Series) -> Footing:
    audit = row.get("audit")
    return Footing("" if pd.isna(audit) else str(audit),  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
                   tuple(_word(name, row.get(name)) for name in _COLUMNS))  # fmt: skip


def _word(name: str, value: object) -> str:
    """Return a value in words that no other column's value has."""
    if pd.isna(value):  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportCallIssue]
        return f"{name} not stated"
    if name == "delta":
        return f"δ = {plain_number(float(value))}"  # pyright: ignore[reportArgumentType]
    if name == "n_units":
        return f"n = {value}"
    if name == "steps_planned":
        return f"{value} steps"
    return f"{name.replace('_', ' ')} {str(value).replace('_', ' ')}"
