"""What audits found, by run and slice, and which cells can be set side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from analysis import schema
from analysis.interval import range_of
from analysis.lines import Family, Line, private_lines
from analysis.measures import over_conditions
from analysis.slices import SliceColumn

CHANCE = {"exposure": 1 / math.log(2), "membership_auc": 0.5, "tpr_at_1pct": 0.01}
"""What a model that remembers nobody shows in the mean: exposure is −log2 of a uniform rank."""


def audited(table: pd.DataFrame) -> bool:
    """Say whether any cell was audited."""
    return "audit" in table and bool(table["audit"].notna().any())


@dataclass(frozen=True)
class Audits:
    """The cells of one family that one audit, ``name``, gave a ``metric``.

    ``rows`` are those of the table; ``lines`` every rule and ε among the cells, with the conditions
    that have values only.
    """

    cells: Family
    name: str
    metric: str
    rows: pd.DataFrame
    lines: tuple[Line, ...]

    @property
    def epsilon(self) -> float:
        """The main ε of the family if it is there, else the one with most conditions, of equals the
        smallest; NaN without a private cell.
        """
        if self.at(self.cells.epsilon):
            return self.cells.epsilon
        counts = Counter({line.epsilon: 0 for line in sorted(self.lines, key=lambda x: x.epsilon)})
        for line in self.lines:
            counts[line.epsilon] += len(line.conditions)
        return max(counts, key=counts.__getitem__) if counts else math.nan

    @property
    def lead(self) -> str:
        """The name of the rule at most ε, of equals the one with most thresholds."""
        rungs: Counter[str] = Counter()
        for line in self.lines:
            rungs[line.name] += 1000 + len(line.conditions)
        return max(rungs, key=rungs.__getitem__) if rungs else ""

    def at(self, epsilon: float) -> list[Line]:
        """Return the lines at one ε."""
        return [line for line in self.lines if line.epsilon == epsilon]

    def ladder(self) -> list[Line]:
        """Return the leading rule's lines, smallest ε first."""
        own = [line for line in self.lines if line.name == self.lead]
        return sorted(own, key=lambda line: line.epsilon)

    @cached_property
    def baselines(self) -> tuple[int, ...]:
        """The conditions of the baselines among the cells."""
        own = self.cells.named.loc[self.cells.named["run_key"].isin(list(self.rows["run_key"]))]
        return tuple(dict.fromkeys(own.loc[own["part"] == "baseline", "condition"].tolist()))

    def found(self, column: SliceColumn) -> pd.DataFrame:
        """Return mean, sd, seeds, lo and hi over the seeds of every condition, for one slice."""
        rows = self._of(column)
        values = pd.Series(rows["value"].to_numpy(float), index=list(rows["run_key"]))
        return over_conditions(values, self.cells.named, range_of(self.metric))

    def n(self, column: SliceColumn, conditions: Sequence[int] = ()) -> int:
        """Return how many records carry a slice's value, the mean over runs: all of them, or those
        of ``conditions``.
        """
        rows = self._of(column)
        if conditions:
            rows = rows.loc[rows["run_key"].isin(self.cells.keys(list(conditions))), :]
        found = rows["n"].to_numpy(float)
        return round(float(np.mean(found))) if len(found) else 0

    def _of(self, column: SliceColumn) -> pd.DataFrame:
        chosen = (self.rows["slice_kind"] == column.kind) & (self.rows["slice"] == column.name)
        return self.rows.loc[chosen, :]


def audits(cells: Family, metric: str, *names: str) -> Audits | None:
    """Return the cells that have ``metric`` by the first audit of ``names`` that any has it by."""
    table = cells.table
    if not audited(table):
        return None
    own = (table["split"] == schema.AUDIT_SPLIT) & (table["metric"] == metric)
    own &= table["value"].notna()
    for name in names:
        rows = table.loc[own & (table["audit"] == name), :]
        if len(rows):
            return Audits(cells, name, metric, rows, tuple(_lines(cells, set(rows["run_key"]))))
    return None


def bounds(cells: Family) -> pd.DataFrame:
    """Return one row a private, audited run: run_key, ``audit``, ``epsilon`` that is certified,
    ``bound``, the lower bound for any mechanism, ``shaped``, the one that assumes a Gaussian shape,
    and ``refuted``.
    """
    columns = {"audit_epsilon": "bound", "audit_epsilon_gaussian": "shaped",
               "audit_refuted": "refuted"}  # fmt: skip
    wanted = ["run_key", "audit", "epsilon", *columns]
    if not audited(cells.table) or not set(wanted) <= set(cells.table):
        return pd.DataFrame({name: [] for name in [*wanted[:3], *columns.values()]})
    runs = cells.table.drop_duplicates("run_key")
    chosen = runs["audit"].notna() & runs["audit_epsilon"].notna() & runs["epsilon"].lt(math.inf)
    return runs.loc[chosen, wanted].rename(columns=columns).reset_index(drop=True)


def parts(columns: Sequence[SliceColumn]) -> list[SliceColumn]:
    """Return all, then the bands, head before tail; without bands the labels of the tail."""
    bands = [column for column in columns if column.kind == "rarity"]
    rest = bands or [column for column in columns if column.kind == "label" and column.tail][:2]
    return [column for column in columns if column.kind == "all"] + rest


def left_out(cells: Family) -> str:
    """Return how many cells have no audit and are not drawn; empty where all have one."""
    runs = cells.table.drop_duplicates("run_key")
    without = list(runs["audit"].isna()).count(True) if "audit" in runs else len(runs)
    if not without:
        return ""
    return f"{without} of {len(runs)} cells have no audit and are left out"


def _lines(cells: Family, keys: set[str]) -> list[Line]:
    own = cells.named.loc[cells.named["run_key"].isin(list(keys)), :]
    if own.empty:
        return []
    told: list[Line] = []
    settings = [set(words) for words in own["settings"]]
    shared = set.intersection(*settings) if settings else set()
    for line in private_lines(cells.table, own):
        words = tuple(word for word in line.settings if word not in shared)
        told.append(replace(line, settings=words))
    return told


def paired_fall(audit: Audits, condition: int, column: SliceColumn) -> np.ndarray:
    """Return recall of the baseline minus that of a condition, ``[seeds]``, on the test split."""
    table = audit.cells.table
    rows = table.loc[(table["metric"] == "recall") & (table["split"] == "test"), :]
    rows = rows.loc[(rows["slice_kind"] == column.kind) & (rows["slice"] == column.name), :]
    value = dict(zip(rows["run_key"], rows["value"], strict=True))
    own = rows.loc[rows["run_key"].isin(audit.cells.keys([condition])), :]
    falls = [value.get(base, math.nan) - value[key]
             for key, base in zip(own["run_key"], own["baseline_key"], strict=True)]  # fmt: skip
    return np.array([fall for fall in falls if math.isfinite(fall)])
