"""The rules and thresholds that can be chosen, and what they reach on validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.findings.phrases import of_line
from analysis.interval import t_interval_of
from analysis.lines import Family, Line
from analysis.measures import overall, rare_recall

VALIDATION = "validation"


@dataclass(frozen=True)
class Choice:
    """A rule and C: its runs, what they reach on validation, mean and tail, and over how many
    seeds; ``by_accuracy`` is the same rule at the C that validation accuracy alone chooses.
    """

    name: str
    runs: tuple[str, ...]
    scores: tuple[float, float]
    seeds: int
    by_accuracy: str

    @property
    def total(self) -> float:
        """Mean and tail together: what is chosen by."""
        return sum(self.scores)


def tail_of(cells: Family) -> str | None:
    """Return what stands for the tail: the band, else recall on rare labels, else the worst."""
    for name in ("tail_band", "rare", "tail_worst"):
        if _scores(cells, name, VALIDATION) is not None:
            return name
    return None


def choices_of(cells: Family, lines: Sequence[Line], tail: str) -> list[Choice]:
    """Return every rule and C that has both scores; of a rule to which C does nothing all C are
    one choice.
    """
    found: list[Choice] = []
    scores = [_known(cells, name, VALIDATION) for name in ("macro_accuracy", tail)]
    runs = cells.named.groupby("condition")["run_key"].agg(list).to_dict()
    seeds_of = _seeds(cells)
    for line in lines:
        alone = "" if line.best is None else _name(line, line.best)
        for conditions in [line.conditions] if line.idle else [(c,) for c in line.conditions]:
            keys = tuple(key for condition in conditions for key in runs[condition])
            both = [list(_by_seed(own, seeds_of, keys).values()) for own in scores]
            seeds = int(np.isfinite(both).all(axis=0).sum())
            means = (t_interval_of(np.array(both[0]))[0], t_interval_of(np.array(both[1]))[0])
            if seeds:
                found.append(Choice(_name(line, conditions[0]), keys, means, seeds, alone))
    return found


def _name(line: Line, condition: int) -> str:
    return f"{line.name} (any C)" if line.idle else of_line(line, condition)


def front_of(choices: list[Choice]) -> list[Choice]:
    """Return those that no other exceeds in one score without falling behind in the other."""
    return [
        one
        for one in choices
        if not any(
            other.scores[0] >= one.scores[0]
            and other.scores[1] >= one.scores[1]
            and other.scores != one.scores
            for other in choices
        )
    ]


def values_of(cells: Family, name: str, split: str, keys: Sequence[str]) -> pd.Series:
    """Return a metric of all examples, or recall on ``rare`` labels, by seed: the mean where
    several of the runs are of one.
    """
    return pd.Series(_by_seed(_known(cells, name, split), _seeds(cells), keys), dtype="float64")


def _seeds(cells: Family) -> dict[str, str]:
    return dict(zip(cells.named["run_key"], map(str, cells.named["replicate"]), strict=True))


def _known(cells: Family, name: str, split: str) -> dict[object, float]:
    scores = _scores(cells, name, split)
    return {} if scores is None else dict(scores.items())


def _by_seed(
    values: Mapping[object, float], seeds: Mapping[str, str], keys: Sequence[str]
) -> dict[str, float]:
    found: dict[str, list[float]] = {seeds[key]: [] for key in keys if key in seeds}
    for key in keys:
        if math.isfinite(value := values.get(key, math.nan)):
            found[seeds[key]].append(value)
    return {seed: sum(own) / len(own) if own else math.nan for seed, own in found.items()}


def _scores(cells: Family, name: str, split: str) -> pd.Series | None:
    if name == "rare":
        found = rare_recall(cells.table, cells.columns, split)
    else:
        found = overall(cells.table, name, name, split)
    return None if found is None else found.values
