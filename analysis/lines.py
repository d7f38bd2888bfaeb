"""The lines of a figure: a clipping rule over its thresholds, and the threshold that is best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import pandas as pd

from analysis.conditions import conditions
from analysis.idle import norm_is_idle
from analysis.slices import SliceColumn, slice_columns
from analysis.table import over_seeds

CRITERION = ("validation", "all", "all", "accuracy")
"""By what the best threshold is chosen: split, slice kind, slice and metric."""

ENOUGH = 2
"""Seeds that a threshold needs to be the best, where any of its line has as many: one seed may be
lucky, and no difference from it can be tested."""


@dataclass(frozen=True)
class Line:
    """A rule with its settings at one ε: ``conditions`` and their thresholds ``norms`` go together,
    smallest C first, NaN for a rule without one.

    ``best`` is the condition with the highest mean validation accuracy among those with ``ENOUGH``
    seeds (without any, among all), None if none has a value. ``score`` is its accuracy, NaN
    without. ``passed_over`` are those with too few seeds, where others have enough. ``settings``
    are those that tell the line from others of its rule. ``idle``: C does nothing (``idle.py``);
    the best is then the smallest C of those with the most seeds, as none may win by luck.
    """

    rule: str
    settings: tuple[str, ...]
    epsilon: float
    conditions: tuple[int, ...]
    norms: tuple[float, ...]
    best: int | None
    score: float = math.nan
    passed_over: tuple[int, ...] = ()
    idle: bool = False

    @property
    def name(self) -> str:
        """Rule and settings."""
        return ", ".join([self.rule, *self.settings])

    def norm(self, condition: int) -> float:
        """Return the threshold of one of the line's conditions."""
        return self.norms[self.conditions.index(condition)]

    def titled(self, condition: int) -> str:
        """Return rule, settings and threshold."""
        norm = self.norm(condition)
        if self.idle and not math.isnan(norm):
            return f"{self.name}, C = {norm:g} (any alike)"
        return self.name if math.isnan(norm) else f"{self.name}, C = {norm:g}"


def private_lines(table: pd.DataFrame, named: pd.DataFrame) -> list[Line]:
    """Return the lines of all private cells, in the order of ``conditions``."""
    of_row = named.drop_duplicates("condition").set_index("condition")
    private = of_row.loc[of_row["part"] == "private"]
    scores, seeds = _scores(table, named)
    runs = named[["run_key", "condition"]].merge(table.drop_duplicates("run_key"), on="run_key")
    found: dict[tuple[object, ...], list[int]] = {}
    for condition, row in private.iterrows():
        found.setdefault((row["rule"], row["settings"], row["shown_epsilon"]), []).append(condition)  # pyright: ignore[reportArgumentType]
    lines: list[Line] = []
    for (rule, settings, epsilon), members in found.items():
        rated = [condition for condition in members if not math.isnan(scores.get(condition, _NAN))]
        enough = with_enough(rated, seeds)
        idle = norm_is_idle(runs.loc[runs["condition"].isin(members), :])
        best = max(enough, key=(seeds if idle else scores).__getitem__) if enough else None
        norms = tuple(float(of_row["clip_norm"][condition]) for condition in members)  # pyright: ignore[reportArgumentType]
        rating = _NAN if best is None else scores[best]
        few = tuple(condition for condition in rated if condition not in enough)
        own, at = cast("tuple[tuple[str, ...], float]", (settings, epsilon))
        every = tuple(members)
        lines.append(Line(str(rule), own, at, every, norms, best, rating, few, idle))
    return _told_apart(lines)


def with_enough(conditions: Sequence[int], seeds: Mapping[int, int]) -> list[int]:
    """Return the conditions with ``ENOUGH`` seeds; all of them where none has."""
    found = [condition for condition in conditions if seeds.get(condition, 0) >= ENOUGH]
    return found or list(conditions)


def main_epsilon(named: pd.DataFrame) -> float:
    """Return the ε with the most private cells, the smallest of equals; NaN without any."""
    private = named.loc[named["part"] == "private", "shown_epsilon"]
    counts = Counter(sorted(private))
    return max(counts, key=counts.__getitem__) if counts else _NAN


def lines_at(lines: list[Line], epsilon: float) -> list[Line]:
    """Return the lines at one ε."""
    return [line for line in lines if line.epsilon == epsilon]


@dataclass(frozen=True)
class Chosen:
    """A condition that is drawn for its line, with its name; ``line`` is None for a baseline."""

    name: str
    condition: int
    line: Line | None


@dataclass(frozen=True)
class Family:
    """The cells of one figure: one row a run in ``named``, and the lines at the main ε.

    First come the best settings of every rule: flat clipping, rules with several thresholds, and
    the others, each by validation accuracy. Where there is no room for all, it is rules that are
    compared, not the settings of one.
    """

    table: pd.DataFrame
    named: pd.DataFrame
    epsilon: float
    lines: tuple[Line, ...]

    @cached_property
    def columns(self) -> list[SliceColumn]:
        """The slices of the cells."""
        return slice_columns(self.table)

    def keys(self, conditions: list[int]) -> list[str]:
        """Return the run keys of some conditions."""
        return list(self.named.loc[self.named["condition"].isin(conditions), "run_key"])

    def first(self, most: int) -> Family:
        """Return the family with so many lines at most."""
        return replace(self, lines=self.lines[:most])

    def best(self) -> list[Chosen]:
        """Return every line's best condition; its middle threshold where none was validated."""
        found: list[Chosen] = []
        for line in self.lines:
            middle = line.conditions[len(line.conditions) // 2]
            condition = middle if line.best is None else line.best
            found.append(Chosen(line.titled(condition), condition, line))
        return found

    def baselines(self) -> list[Chosen]:
        """Return the baselines, told apart by their settings if there are several."""
        rows = self.named.loc[self.named["part"] == "baseline"].drop_duplicates("condition")
        several = len(rows) > 1
        return [
            Chosen(
                ", ".join(["baseline (not private)", *(settings if several else ())]),
                int(condition),
                None,
            )
            for condition, settings in zip(rows["condition"], rows["settings"], strict=True)
        ]


def family(table: pd.DataFrame | Family) -> Family:
    """Return the lines of cells that agree in data, model, slices and owners; a family as it is.

    Raises ``ValueError``: no cells, or cells of more than one family (``conditions``).
    """
    if isinstance(table, Family):
        return table
    if table.empty:
        raise ValueError("no cells to draw")
    named = conditions(table)
    setting = table[["data", "model"]].drop_duplicates()
    if named["family"].nunique() > 1 or len(setting) > 1:  # pyright: ignore[reportGeneralTypeIssues]
        raise ValueError("this figure needs cells of one data set, model, slices and owners")
    epsilon = main_epsilon(named)
    lines = lines_at(private_lines(table, named), epsilon)
    return Family(table, named, epsilon, tuple(_telling(lines)))


def families(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the parts of the table that a figure can hold, the one with the most cells first."""
    parts: list[pd.DataFrame] = []
    for _, cells in table.groupby(["data", "model"], sort=True):
        named = conditions(cells)
        for _, members in named.groupby("family", sort=True):
            parts.append(cells.loc[cells["run_key"].isin(list(members["run_key"])), :])
    return sorted(parts, key=lambda part: -part["run_key"].nunique())


_NAN = float("nan")


def _scores(
    table: pd.DataFrame, named: pd.DataFrame
) -> tuple[dict[int, float], dict[int, int]]:  # fmt: skip
    """Return mean and number of seeds of what the best is chosen by, by condition."""
    split, kind, name, metric = CRITERION
    rows = table.loc[(table["split"] == split) & (table["metric"] == metric)]
    rows = rows.loc[(rows["slice_kind"] == kind) & (rows["slice"] == name)]
    means = over_seeds(rows, named)
    of = means["condition"].tolist()
    return (dict(zip(of, means["mean"].tolist(), strict=True)),
            dict(zip(of, means["seeds"].tolist(), strict=True)))  # fmt: skip


def _telling(lines: list[Line]) -> list[Line]:
    """Return the lines in the order in which they are drawn, as ``Family`` says."""

    def rating(line: Line) -> float:
        return -math.inf if math.isnan(line.score) else line.score

    ranked = sorted(lines, key=lambda x: (x.rule != "flat", len(x.norms) < 2, -rating(x)))
    leaders = {line.rule: line for line in reversed(ranked)}
    return sorted(ranked, key=lambda line: leaders[line.rule] is not line)


def _told_apart(lines: list[Line]) -> list[Line]:
    """Drop the settings that all lines of a rule share."""
    told: list[Line] = []
    for line in lines:
        others = [other.settings for other in lines if other.rule == line.rule]
        shared = set(line.settings).intersection(*map(set, others))
        if len(set(others)) == 1:
            shared = set(line.settings)
        told.append(replace(line, settings=tuple(w for w in line.settings if w not in shared)))
    return told
