"""Which rule and C: the front of mean against tail accuracy, by validation, reported on test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from analysis.findings.candidates import AUDITED, candidates
from analysis.findings.choices import VALIDATION, Choice, choices_of, front_of, tail_of, values_of
from analysis.findings.choosing_cost import choosing_cost
from analysis.findings.phrases import at
from analysis.interval import SHARE, t_interval_of
from analysis.lines import ENOUGH, Family, with_enough
from analysis.wording import counted

_NAMED = 5
_OF_SUMS = (-2.0, 2.0)
"""What two sums of two shares can differ by."""


def recommendation(cells: Family, runs: Path | None) -> list[str]:
    """Return sentences: what to choose and why, how sure that is, and what choosing cost in ε."""
    if not cells.lines:
        return ["No rule is recommended: no private cell is finished."]
    measures = tail_of(cells)
    if measures is None:
        return ["No rule is recommended: the cells have no accuracy of a tail on validation."]
    found = candidates(cells)
    if not found.lines:
        return [
            f"No rule is recommended: every private run was audited ({found.audited} in all),"
            f" {AUDITED}. Train the same without audit to choose."
        ]
    choices = choices_of(cells, found.lines, measures)
    if not choices:
        return ["No rule is recommended: no private cell has both scores on validation."]
    every, seeds = choices, dict(enumerate(one.seeds for one in choices))
    choices = [every[place] for place in with_enough(list(seeds), seeds)]
    front = front_of(choices)
    best = max(front, key=lambda one: one.total)
    return [
        _chosen(cells, found.epsilon, best, measures),
        _reasons(cells, choices, front, best, measures),
        _criterion(best, len(every) - len(choices)),
        *_doubt(cells, choices, best, measures),
        *filter(None, [found.left_out]),
        choosing_cost(cells, found, runs),
    ]


_TOLD = {
    "tail_band": "accuracy of the tail",
    "rare": "recall on rare labels",
    "tail_worst": "accuracy of the worst slice",
}


def _chosen(cells: Family, epsilon: float, best: Choice, tail: str) -> str:
    own = cells.table["run_key"].isin(list(best.runs))
    keys = tuple(cells.table.loc[own, "baseline_key"].dropna().unique())
    reference = [_mean_of(cells, name, keys)
                 for name in ("macro_accuracy", tail)]  # fmt: skip
    beside = ""
    if np.isfinite(reference).all():
        beside = f"; without privacy {reference[0]:.2f} and {reference[1]:.2f}"
    mean, rare = (_with_interval(values_of(cells, name, "test", best.runs).to_numpy(float))
                  for name in ("macro_accuracy", tail))  # fmt: skip
    runs = f"{len(best.runs)} runs, " if len(best.runs) > best.seeds else ""
    return (
        f"{at(epsilon)}, validation favours {best.name}: on the test split it reaches"
        f" mean accuracy over classes {mean} and {_TOLD[tail]} {rare}"
        f" ({runs}{counted(best.seeds, 'seed')}{beside})."
    )


def _reasons(
    cells: Family, choices: list[Choice], front: list[Choice], best: Choice, tail: str
) -> str:
    words = (
        f"Of {counted(len(choices), 'pair')} of rule and C it has the highest sum of mean accuracy"
        f" ({best.scores[0]:.2f}) and {_TOLD[tail]} ({best.scores[1]:.2f}) on validation; the test"
        " split had no say."
    )
    others = sorted((one for one in front if one is not best), key=lambda one: -one.total)
    if not others:
        return f"{words} No other pair is better in either."
    told = "; ".join(
        f"{one.name} ({one.scores[0]:.2f} and {one.scores[1]:.2f}; on test"
        f" {_mean(cells, 'macro_accuracy', one)} and {_mean(cells, tail, one)})"
        for one in others[:_NAMED]
    )
    if len(others) > _NAMED:
        told += f"; and {len(others) - _NAMED} more"
    return f"{words} Also on the front, better in one of the two: {told}."


def _criterion(best: Choice, passed_over: int) -> str:
    """Return by what else C is chosen elsewhere, and how many pairs had too few seeds."""
    if not best.by_accuracy:
        other = "here no cell has one"
    elif best.by_accuracy == best.name:
        other = f"that is {best.name}, too"
    else:
        other = f"that is {best.by_accuracy}"
    told = (
        "The tests above and the figures take C by validation accuracy alone, over all examples"
        f" alike: of this rule {other}."
    )
    if passed_over:
        told += (
            f" {counted(passed_over, 'pair')} with 1 seed"
            f" {'was' if passed_over == 1 else 'were'} passed over, as others have"
            f" {ENOUGH} or more."
        )
    return told


def _doubt(cells: Family, choices: list[Choice], best: Choice, tail: str) -> list[str]:
    """Return how far the choice is from the next one, over seeds; nothing without another."""
    others = sorted((one for one in choices if one is not best), key=lambda one: -one.total)
    if not others:
        return []
    sums = [
        values_of(cells, "macro_accuracy", VALIDATION, one.runs)
        + values_of(cells, tail, VALIDATION, one.runs)
        for one in (best, others[0])
    ]
    seeds = (sums[0] - sums[1]).dropna().to_numpy(float)
    mean, low, high = t_interval_of(seeds, _OF_SUMS)
    if not np.isfinite(low):
        return [f"One seed cannot tell it from the next, {others[0].name}: train more."]
    told = f"{100 * mean:.0f} points [{100 * low:.0f}, {100 * high:.0f}]".replace("-", "−")
    sure = (
        "is ahead over seeds, too"
        if low > 0
        else f"is not told apart from it by {counted(len(seeds), 'seed')}"
    )
    return [
        f"Next by that sum is {others[0].name}, {told} behind on validation (paired over seeds,"
        f" 95 % by Student's t, not corrected for having chosen): the choice {sure}."
    ]


def _with_interval(values: np.ndarray) -> str:
    mean, low, high = t_interval_of(values, SHARE)
    if not np.isfinite(mean):
        return "no value"
    return f"{mean:.2f}" + (f" [{low:.2f}, {high:.2f}]" if np.isfinite(low) else "")


def _mean_of(cells: Family, name: str, keys: Sequence[str]) -> float:
    return t_interval_of(values_of(cells, name, "test", keys).to_numpy(float))[0]


def _mean(cells: Family, name: str, one: Choice) -> str:
    mean = _mean_of(cells, name, one.runs)
    return f"{mean:.2f}" if np.isfinite(mean) else "no value"
