"""Audits of many runs: one example, in or out by its coin in each, and one threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis import schema
from dpsgd.auditing.trials import Trials, epsilon_of_mu, epsilon_of_trials, mu_of_trials
from dpsgd.experiment.shadows import Member, alike, label_of, same_examples

FEWEST = 4
"""Runs: two to choose by, and two to test on."""


@dataclass(frozen=True)
class Tested:
    """What many runs of one configuration say of its ε.

    ``example`` is the place, among those with coins, of the one that was ``chosen`` with its
    threshold on so many runs; ``trials`` are those of all other runs. ``epsilon`` holds for any
    mechanism, ``mu``, and ``epsilon_gaussian`` with it, for one whose trade-off curve is of
    Gaussian shape. ``refuted``: ``epsilon`` is above the ``claimed`` one; None without a claim.
    ``reach`` is what ``epsilon`` would be had the test made no mistake: no run says more.
    """

    label: str
    chosen: int
    example: int
    trials: Trials
    claimed: float
    epsilon: float
    mu: float
    epsilon_gaussian: float
    reach: float

    @property
    def powerless(self) -> bool:
        """Whether a test without a mistake would not have refuted the claim either."""
        return math.isfinite(self.claimed) and self.reach <= self.claimed

    @property
    def refuted(self) -> bool | None:
        """Whether the bound is above the claimed ε, None where that is infinite."""
        return self.epsilon > self.claimed if math.isfinite(self.claimed) else None


def many_runs(folders: Sequence[Path], cells: Sequence[Mapping[str, Any]]) -> Iterator[Tested]:
    """Yield what each group of runs that differ in their seed alone says together.

    Runs are independent of each other, and coins are; so error rates of one test are counted over
    runs (Clopper and Pearson), never over the examples of one. Whose example, and which
    threshold, is chosen on the first half of the runs, in the order of their seeds, and tested on
    the second. Groups whose coins bound nothing, or that are too few, are left out. Raises
    ConfigError if runs of a group are not of the same examples.
    """
    for members in alike(folders, cells, ("gradient", "canaries", "membership")):
        first = members[0][1]
        if len(members) >= FEWEST and first["audit_epsilon"] is not None:
            ordered = sorted(members, key=lambda member: int(member[1]["seed"]))
            found = _tested(ordered)
            if found is not None:
                yield found


def trials_of(
    score: np.ndarray, included: np.ndarray, significance: float
) -> tuple[int, Trials] | None:
    """Return one example and its trials over the second half of the runs; both arguments are
    ``[runs, examples]``.

    The example and its threshold are those that say the most on the first half. None if its coin
    fell to one side alone on the second.
    """
    half = len(score) // 2
    example, threshold = _chosen(score[:half], included[:half], significance)
    guessed, inside = score[half:, example] >= threshold, included[half:, example]
    if inside.all() or not inside.any():
        return None
    return example, Trials(
        int((~inside).sum()), int(inside.sum()),
        int((guessed & ~inside).sum()), int((~guessed & inside).sum()),
    )  # fmt: skip


def _tested(members: Sequence[Member]) -> Tested | None:
    tables = [pd.read_parquet(folder / schema.AUDIT_FILE) for folder, _ in members]
    same_examples(members, tables)
    score = np.stack([table["score"].to_numpy(np.float64) for table in tables])
    included = np.stack([table["included"].to_numpy(bool) for table in tables])
    cell = members[0][1]
    delta, significance = float(cell["delta"]), float(cell["audit_significance"])
    found = trials_of(np.where(np.isnan(score), -np.inf, score), included, significance)
    if found is None:
        return None
    example, trials = found
    mu = mu_of_trials(trials, significance)
    return Tested(
        label_of(cell), len(members) // 2, example, trials, float(cell["epsilon"]),
        epsilon_of_trials(trials, delta, significance), mu, epsilon_of_mu(mu, delta),
        epsilon_of_trials(Trials(trials.without, trials.with_, 0, 0), delta, significance),
    )  # fmt: skip


def _chosen(scores: np.ndarray, included: np.ndarray, significance: float) -> tuple[int, float]:
    """Return the example and the threshold of which ``[runs, examples]`` bound ε the most; among
    equals, those that are wrong the least.

    A threshold is a score that was seen: at or above it an example is taken to be in.
    """
    best, found = (-math.inf, -math.inf), (0, math.inf)
    inside, outside = included.sum(0), (~included).sum(0)
    for row in scores:
        above = scores >= row
        wrong_out, wrong_in = (above & ~included).sum(0), (~above & included).sum(0)
        one = _upper(wrong_out, outside, significance / 2)
        other = _upper(wrong_in, inside, significance / 2)
        with np.errstate(divide="ignore"):
            bound = np.maximum(np.log((1 - one) / other), np.log((1 - other) / one))
        error = wrong_out / np.maximum(outside, 1) + wrong_in / np.maximum(inside, 1)
        error = np.where((inside > 0) & (outside > 0), error, np.inf)
        place = int(np.lexsort((-error, np.maximum(bound, 0.0)))[-1])
        better = (max(float(bound[place]), 0.0), -float(error[place]))
        if better > best:
            best, found = better, (place, float(row[place]))
    return found


def _upper(wrong: np.ndarray, of: np.ndarray, significance: float) -> np.ndarray:
    """Return Clopper and Pearson's upper bounds, 1 where nothing was right."""
    right = np.maximum(of - wrong, 1)
    return np.where(wrong < of, stats.beta.ppf(1 - significance, wrong + 1, right), 1.0)
