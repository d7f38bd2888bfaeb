"""What every run got right, example by example where predictions are there, else slice by slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis.findings.statistics import FEWEST, Estimate, over_both, over_seeds
from analysis.lines import Family
from analysis.measures import by_slice
from analysis.membership import membership
from analysis.slices import SliceColumn

RUNS = "run_key"


@dataclass(frozen=True)
class Outcomes:
    """The cells of one family, with the predictions of the test split that could be read.

    ``predictions`` has the columns that ``run_files.predictions`` names, and may be empty.
    """

    cells: Family
    predictions: pd.DataFrame

    @cached_property
    def slices(self) -> list[SliceColumn]:
        """All slices with 10 test examples or more; of those that are the same, the last, so that a
        label stands for a band that it fills.
        """
        enough = [column for column in self.cells.columns if column.n_low >= FEWEST]
        places = [self.cells.columns.index(column) for column in enough]
        inside = self._inside[:, places]
        told: dict[object, SliceColumn] = {}
        for place, column in enumerate(enough):
            own = inside[:, place]
            recall = self.by_metric("recall")[(column.kind, column.name)].to_numpy(float)
            key = own.tobytes() if own.any() else (column.n_low, recall.tobytes())
            told[key] = column
        return [column for column in enough if column in told.values()]

    @property
    def compared(self) -> list[SliceColumn]:
        """The slices that are parts, without bands that are no tail: those are everything else."""
        return [c for c in self.slices if c.kind != "all" and (c.kind != "rarity" or c.tail)]

    @cached_property
    def runs(self) -> dict[int, dict[str, str]]:
        """Run keys by condition and seed."""
        found: dict[int, dict[str, str]] = {}
        named = self.cells.named
        for key, place, seed in zip(
            named["run_key"], named["condition"], named["replicate"], strict=True
        ):
            found.setdefault(int(place), {})[str(seed)] = str(key)
        return found

    def by_metric(self, metric: str) -> pd.DataFrame:
        """Return a metric of the test split as ``[runs, slices]``, by run key and (kind, name)."""
        if metric not in self._metrics:
            self._metrics[metric] = by_slice(self.cells.table, self.cells.columns, metric)
        return self._metrics[metric]

    def of_training(self, metric: str) -> pd.DataFrame:
        """Return kept or the clip fraction as ``by_metric`` does, of training or what stood in."""
        if metric not in self._metrics:
            table = self.cells.table
            rows = table.loc[table["split"].isin(["train", "probe"])].assign(split="test")
            self._metrics[metric] = by_slice(rows, self.cells.columns, metric).reindex(
                list(table["run_key"].drop_duplicates())
            )
        return self._metrics[metric]

    def marked(self, metrics: Sequence[str], keys: Sequence[str]) -> str:
        """Return how rows of training are released, where that is not public: raw or noised."""
        rows = self.cells.table
        rows = rows.loc[rows["metric"].isin(list(metrics)) & rows["run_key"].isin(list(keys)), :]
        found = set(rows["release"])
        if "private" in found:
            return "; diagnostic, not private"
        return "; noised, inside ε" if "accounted" in found else ""

    def mean(self, metric: str, keys: Sequence[str], column: SliceColumn) -> float:
        """Return the mean of a test metric over runs; NaN where none has a value."""
        found = self.by_metric(metric).reindex(list(keys))[(column.kind, column.name)]
        return float(found.mean())

    def recall(
        self, weights: Mapping[str, float], runs: pd.DataFrame, column: SliceColumn, *,
        against_rest: bool,
    ) -> Estimate | None:  # fmt: skip
        """Return Σ weight · share right in a slice, minus that of all other examples if asked.

        ``runs`` has one row a seed, and run keys in the columns that ``weights`` names.
        None where no seed has them all, or no other examples are left.
        """
        used = runs.loc[runs[list(weights)].notna().all(axis=1), list(weights)]
        known = used.isin(set(self._right.index)).all(axis=1)
        if len(used) and known.all() and self._place(column).any():
            return self._by_example(self._right, weights, used, column, against_rest)
        return self._by_seed(weights, used, column, against_rest)

    def gap(
        self, weights: Mapping[str, float], runs: pd.DataFrame, column: SliceColumn
    ) -> Estimate | None:
        """Return Σ weight · (mean confidence − share right) in a slice; None without predictions."""
        used = runs.loc[runs[list(weights)].notna().all(axis=1), list(weights)]
        known = used.isin(set(self._right.index)).all(axis=1)
        if not len(used) or not known.all() or not self._place(column).any():
            return None
        return self._by_example(self._sure - self._right, weights, used, column, False)

    def confidence(self, keys: Sequence[str], column: SliceColumn) -> float:
        """Return the mean confidence in a slice; NaN without predictions."""
        own = self._sure.reindex(list(keys)).loc[:, self._place(column)]
        return float(np.nanmean(own.to_numpy())) if own.notna().to_numpy().any() else float("nan")

    def _by_example(
        self, values: pd.DataFrame, weights: Mapping[str, float], used: pd.DataFrame,
        column: SliceColumn, against_rest: bool,
    ) -> Estimate | None:  # fmt: skip
        each = sum(w * values.loc[list(used[name])].to_numpy() for name, w in weights.items())
        inside = self._place(column)
        parts = [(1.0, np.asarray(each)[:, inside])]
        if against_rest:
            if (~inside).sum() < FEWEST:
                return None
            parts.append((-1.0, np.asarray(each)[:, ~inside]))
        return over_both(parts)

    def _by_seed(
        self, weights: Mapping[str, float], used: pd.DataFrame, column: SliceColumn,
        against_rest: bool,
    ) -> Estimate | None:  # fmt: skip
        recall = self.by_metric("recall")
        total = recall[("all", "all")] if ("all", "all") in recall else None
        own = recall[(column.kind, column.name)]
        if against_rest:
            whole = next((c.n_high for c in self.cells.columns if c.kind == "all"), 0)
            rest = whole - column.n_high
            if total is None or rest < FEWEST:
                return None
            own = own - (total * whole - own * column.n_high) / rest
        each = sum(w * own.reindex(list(used[name])).to_numpy(float) for name, w in weights.items())
        found = np.asarray(each, dtype=float)
        found = found[np.isfinite(found)]
        return over_seeds(found) if len(found) else None

    @cached_property
    def _metrics(self) -> dict[str, pd.DataFrame]:
        return {}

    @cached_property
    def _right(self) -> pd.DataFrame:
        own = self.predictions
        right = (own["predicted"] == own["label"]).astype(float)
        return self._wide(right)

    @cached_property
    def _sure(self) -> pd.DataFrame:
        return self._wide(self.predictions["confidence"].astype(float))

    def _wide(self, values: pd.Series) -> pd.DataFrame:
        """Return ``[runs, examples]``, without runs that lack an example of the first."""
        own = self.predictions.assign(value=values)
        if own.empty:
            return pd.DataFrame(index=pd.Index([], name=RUNS))
        wide = own.pivot(index=RUNS, columns="example", values="value")
        return wide.dropna(axis=0)

    @cached_property
    def _inside(self) -> np.ndarray:
        """Return ``[examples, slices]`` of the examples of ``_right``; no rows without any."""
        own = self.predictions.drop_duplicates("example").sort_values("example")
        return membership(own, self.cells.columns)

    def _place(self, column: SliceColumn) -> np.ndarray:
        return self._inside[:, self.cells.columns.index(column)]
