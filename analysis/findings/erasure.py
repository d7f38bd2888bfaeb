"""Erasure: which slice loses more than all other examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.findings.by_slice import by_slice
from analysis.findings.model import Finding
from analysis.findings.outcomes import Outcomes, Runs
from analysis.findings.phrases import at, basis, interval, of_line, of_slice, percent, points, share
from analysis.findings.statistics import Estimate
from analysis.lines import Line
from analysis.slices import SliceColumn

_FALL = {"neither": 1.0, "run_key": -1.0}


def erasures(source: Outcomes) -> list[Finding]:
    """Return for every rule and ε, at its best C by validation, and every slice: the fall of recall
    from the baseline of the same seed, minus that of all other test examples.
    """
    return by_slice(source, _of_slice)


def _of_slice(
    source: Outcomes, line: Line, best: int, column: SliceColumn, runs: Runs
) -> Finding | None:
    effect = source.recall(_FALL, runs, column, against_rest=True)
    fall = source.recall(_FALL, runs, column)
    if effect is None or fall is None:
        return None
    keys, baselines = runs["run_key"], runs["neither"]
    value, reference = (source.means("recall", own, column) for own in (keys, baselines))
    kept = _kept(source, keys, column)
    others = fall.mean - effect.mean

    def words(effect: Estimate) -> str:
        change = "lose" if others >= 0 else "gain"
        return (
            f"{at(line.epsilon)}, {of_line(line, best)} leaves recall {share(value)} on"
            f" {of_slice(column)}, against {share(reference)} without privacy: it loses"
            f" {points(fall.mean)}, where all other examples {change} {points(others)};"
            f" {points(effect.mean)} {interval(effect)} more{kept} ({basis(effect, column)})"
        )

    return Finding(
        "erasure", of_line(line, best), "all other examples", "fall of recall", column,
        column.n_low,
        line.epsilon, fall.mean, others, effect, words, effect.mean > 0 and fall.mean > 0,
        (*keys, *baselines),
    )  # fmt: skip


def _kept(source: Outcomes, keys: Sequence[str], column: SliceColumn) -> str:
    whole = next((one for one in source.cells.columns if one.kind == "all"), column)
    own, every = (source.means("kept", keys, one) for one in (column, whole))
    if not math.isfinite(own + every):
        return ""
    words = f"it keeps {percent(own)} of the slice's gradient and {percent(every)} of all"
    return f". In training {words}{source.marked(keys).replace(';', ',')}"
