"""Erasure: which slice loses more than all other examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.effects import partners
from analysis.findings.model import Finding, shared
from analysis.findings.outcomes import Outcomes
from analysis.findings.phrases import at, basis, interval, of_line, of_slice, percent, points, share
from analysis.findings.statistics import Estimate
from analysis.lines import Line, private_lines
from analysis.slices import SliceColumn

_FALL = {"neither": 1.0, "run_key": -1.0}


def erasures(source: Outcomes) -> list[Finding]:
    """Return for every rule and ε, at its best C by validation, and every slice: the fall of recall
    from the baseline of the same seed, minus that of all other test examples.
    """
    found: list[Finding] = []
    pairs = partners(source.cells.table, source.cells.named)
    for line in private_lines(source.cells.table, source.cells.named):
        if line.best is None:
            continue
        runs = pairs.loc[(pairs["condition"] == line.best) & pairs["neither"].notna(), :]
        for column in source.compared:
            finding = _of_slice(source, line, line.best, column, runs)
            found += [finding] if finding is not None else []
    return shared(found)


def _of_slice(
    source: Outcomes, line: Line, best: int, column: SliceColumn, runs: pd.DataFrame
) -> Finding | None:
    effect = source.recall(_FALL, runs, column, against_rest=True)
    fall = source.recall(_FALL, runs, column, against_rest=False)
    if effect is None or fall is None:
        return None
    keys, baselines = list(runs["run_key"]), list(runs["neither"])
    value, reference = (source.mean("recall", own, column) for own in (keys, baselines))
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
        line.epsilon, fall.mean, others, effect, words, effect.mean > 0 and fall.mean > 0,
        (*keys, *baselines),
    )  # fmt: skip


def _kept(source: Outcomes, keys: Sequence[str], column: SliceColumn) -> str:
    kept = source.of_training("kept").reindex(list(keys))
    if ("all", "all") not in kept:
        return ""
    own, whole = kept[(column.kind, column.name)].mean(), kept[("all", "all")].mean()
    if not np.isfinite([own, whole]).all():
        return ""
    words = f"it keeps {percent(own)} of the slice's gradient and {percent(whole)} of all"
    return f". In training {words}{source.marked(('kept',), keys).replace(';', ',')}"
