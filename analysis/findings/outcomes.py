"""What every run got right, example by example where predictions are there, else slice by slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis import schema
from analysis.effects import partners
from analysis.findings.run_rows import RunRows, example_rows, slice_rows
from analysis.findings.statistics import FEWEST, Estimate, over_both, over_seeds
from analysis.footing import Footing, footings
from analysis.lines import Family, Line, private_lines
from analysis.membership import membership
from analysis.slices import SliceColumn

Runs = Mapping[str, Sequence[str]]
"""Run keys by what they are in a comparison; the same place in each is the same seed."""


@dataclass(frozen=True)
class Outcomes:
    """The cells of one family, with the predictions of the test split that could be read.

    ``predictions`` has the columns that ``run_files.predictions`` names, and may be empty.
    """

    cells: Family
    predictions: pd.DataFrame

    @cached_property
    def slices(self) -> list[SliceColumn]:
        """All slices with 10 test examples or more, bands only if they are the tail; of those that
        hold the same examples the last, so that a label stands for a band that it fills.
        """
        told: dict[object, SliceColumn] = {}
        for place, column in enumerate(self.cells.columns):
            if column.n_low < FEWEST or (column.kind == "rarity" and not column.tail):
                continue
            inside = self._inside[:, place]
            recall = self.recalls.values[:, place]
            told[inside.tobytes() if inside.any() else (column.n_low, recall.tobytes())] = column
        return [column for column in self.cells.columns if column in told.values()]

    @property
    def compared(self) -> list[SliceColumn]:
        """The slices that are parts."""
        return [column for column in self.slices if column.kind != "all"]

    @cached_property
    def lines(self) -> list[tuple[Line, int]]:
        """Every rule and ε with the condition that did best in validation; none without one."""
        found = private_lines(self.cells.table, self.cells.named)
        return [(line, line.best) for line in found if line.best is not None]

    @cached_property
    def footings(self) -> Mapping[int, Footing]:
        """On what footing every private condition stands."""
        named = self.cells.named
        return footings(self.cells.table, named.loc[named["part"] == "private", :])

    @cached_property
    def partners(self) -> pd.DataFrame:
        """The private cells with their diagnostics and baseline (``effects.partners``)."""
        return partners(self.cells.table, self.cells.named)

    def paired(self, condition: int, *others: str) -> Runs:
        """Return the runs of a condition and its partners; no seed that lacks one of them."""
        rows = self.partners
        rows = rows.loc[(rows["condition"] == condition) & rows[list(others)].notna().all(axis=1)]
        return {name: [str(key) for key in rows[name]] for name in ("run_key", *others)}

    @cached_property
    def recalls(self) -> RunRows:
        """Recall of the test split by run and slice."""
        return self.by_metric("recall", "test")

    def by_metric(self, metric: str, *splits: str) -> RunRows:
        """Return a metric by run and slice."""
        if metric not in self._metrics:
            rows = slice_rows(self.cells.table, self.cells.columns, metric, splits)
            self._metrics[metric] = rows
        return self._metrics[metric]

    def means(self, metric: str, keys: Sequence[str], column: SliceColumn) -> float:
        """Return the mean of a metric over runs; kept and clip fraction are of training."""
        training = metric in schema.METRICS_OF_TRAINING
        splits = ("train", schema.PROBE) if training else ("test",)
        return _mean(self.by_metric(metric, *splits).of(keys)[:, self._place(column)])

    def audit(self, keys: Sequence[str]) -> str:
        """Return the audit that all of some runs have; empty where they have none."""
        found = {self._audits.get(key, "") for key in keys}
        return found.pop() if len(found) == 1 else ""

    def audited(self, metric: str, keys: Sequence[str], column: SliceColumn) -> np.ndarray:
        """Return what the audits of runs say of a slice, ``[keys]``; NaN where they do not."""
        rows = self.by_metric(metric, schema.AUDIT_SPLIT)
        return rows.of(keys)[:, self._place(column)]

    def coins(self, metric: str, keys: Sequence[str], column: SliceColumn) -> int:
        """Return of how many records a slice's audited metric is, the mean over runs."""
        found = [self._coins.get((metric, key, column.kind, column.name)) for key in keys]
        known = [count for count in found if count is not None]
        return round(sum(known) / len(known)) if known else 0

    def draws(self, keys: Sequence[str], column: SliceColumn) -> int:
        """Return how often a run drew units of a slice, the mean over runs."""
        found = [self._draws.get((key, column.kind, column.name)) for key in keys]
        known = [count for count in found if count is not None]
        return round(sum(known) / len(known)) if known else 0

    def marked(self, keys: Sequence[str]) -> str:
        """Return how kept and clip fraction are released, where they are not public."""
        found = {self._releases.get(key) for key in keys}
        if "private" in found:
            return "; diagnostic, not private"
        return "; noised, inside ε" if "accounted" in found else ""

    def recall(
        self, weights: Mapping[str, float], runs: Runs, column: SliceColumn, *,
        against_rest: bool = False,
    ) -> Estimate | None:  # fmt: skip
        """Return Σ weight · share right in a slice, minus that of all other examples if asked.

        None where no seed has a value, or too few other examples are left.
        """
        rows = self._examples(self._right, weights, runs, column)
        if rows is not None:
            found = self._by_example(rows, column, against_rest=against_rest)
        else:
            found = self._by_seed(weights, runs, column, against_rest=against_rest)
        low = sum(min(weight, 0.0) for weight in weights.values())
        high = sum(max(weight, 0.0) for weight in weights.values())
        within = (low - high, high - low) if against_rest else (low, high)
        return None if found is None else found.cut(within)

    def gap(self, weights: Mapping[str, float], runs: Runs, column: SliceColumn) -> Estimate | None:
        """Return Σ weight · (mean confidence − share right); None without predictions."""
        values = RunRows(self._right.places, self._sure.values - self._right.values)
        rows = self._examples(values, weights, runs, column)
        found = None if rows is None else self._by_example(rows, column, against_rest=False)
        most = sum(map(abs, weights.values()))
        return None if found is None else found.cut((-most, most))

    def confidence(self, keys: Sequence[str], column: SliceColumn) -> float:
        """Return the mean confidence in a slice of runs that have predictions."""
        return _mean(self._sure.of(keys)[:, self._inside[:, self._place(column)]].ravel())

    def _examples(
        self, values: RunRows, weights: Mapping[str, float], runs: Runs, column: SliceColumn
    ) -> np.ndarray | None:
        seeds = len(next(iter(runs.values())))
        known = all(values.have(runs[name]) for name in weights)
        if not seeds or not known or not self._inside[:, self._place(column)].any():
            return None
        return np.sum([w * values.of(runs[name]) for name, w in weights.items()], axis=0)

    def _by_example(
        self, rows: np.ndarray, column: SliceColumn, *, against_rest: bool
    ) -> Estimate | None:
        inside = self._inside[:, self._place(column)]
        if not against_rest:
            return over_both([(1.0, rows[:, inside])])
        if (~inside).sum() < FEWEST:
            return None
        return over_both([(1.0, rows[:, inside]), (-1.0, rows[:, ~inside])])

    def _by_seed(
        self, weights: Mapping[str, float], runs: Runs, column: SliceColumn, *, against_rest: bool
    ) -> Estimate | None:
        place, columns = self._place(column), self.cells.columns
        whole = next((at for at, one in enumerate(columns) if one.kind == "all"), None)
        rest = 0 if whole is None else columns[whole].n_high - column.n_high
        if against_rest and rest < FEWEST:
            return None
        total = np.zeros(len(next(iter(runs.values()))))
        for name, weight in weights.items():
            values = self.recalls.of(runs[name])
            own = values[:, place]
            if against_rest and whole is not None:
                all_right = values[:, whole] * columns[whole].n_high
                own = own - (all_right - own * column.n_high) / rest
            total += weight * own
        total = total[np.isfinite(total)]
        return over_seeds(total) if len(total) else None

    def _place(self, column: SliceColumn) -> int:
        return self.cells.columns.index(column)

    @cached_property
    def _metrics(self) -> dict[str, RunRows]:
        return {}

    @cached_property
    def _draws(self) -> dict[tuple[str, str, str], int]:
        table = self.cells.table
        rows = table.loc[table["metric"] == "kept", ["run_key", "slice_kind", "slice", "n"]]
        return {(str(key), str(kind), str(name)): int(n) for key, kind, name, n in rows.to_numpy()}

    @cached_property
    def _coins(self) -> dict[tuple[str, str, str, str], int]:
        table = self.cells.table
        names = ["metric", "run_key", "slice_kind", "slice", "n"]
        rows = table.loc[table["split"] == schema.AUDIT_SPLIT, names]
        return {(str(m), str(key), str(kind), str(name)): int(n)
                for m, key, kind, name, n in rows.to_numpy()}  # fmt: skip

    @cached_property
    def _audits(self) -> dict[str, str]:
        runs = self.cells.table.drop_duplicates("run_key")
        if "audit" not in runs:
            return {}
        runs = runs.loc[runs["audit"].notna(), :]
        return {
            str(key): str(name) for key, name in zip(runs["run_key"], runs["audit"], strict=True)
        }

    @cached_property
    def _releases(self) -> dict[str, str]:
        table = self.cells.table
        rows = table.loc[table["metric"].isin(list(schema.METRICS_OF_TRAINING)), :]
        rows = rows.drop_duplicates("run_key")
        return dict(zip(rows["run_key"], rows["release"], strict=True))

    @cached_property
    def _right(self) -> RunRows:
        own = self.predictions
        right = (own["predicted"] == own["label"]).to_numpy(float)
        return example_rows(own, right)

    @cached_property
    def _sure(self) -> RunRows:
        sure = self.predictions["confidence"].to_numpy(float)
        return example_rows(self.predictions, sure)

    @cached_property
    def _inside(self) -> np.ndarray:
        """Return ``[examples, slices]``, examples in their order; no rows without predictions."""
        own = self.predictions.drop_duplicates("example").sort_values("example")
        return membership(own, self.cells.columns)


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
