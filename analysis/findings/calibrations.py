"""Calibration: whether a private model is surer on a slice than it is right, and than the baseline."""

from __future__ import annotations

import math

import pandas as pd

from analysis.effects import partners
from analysis.findings.model import Finding, shared
from analysis.findings.outcomes import Outcomes
from analysis.findings.phrases import at, basis, interval, of_line, of_slice, points, share
from analysis.findings.statistics import Estimate
from analysis.lines import Line, private_lines
from analysis.slices import SliceColumn


def calibrations(source: Outcomes) -> list[Finding]:
    """Return, for every rule and ε at its best C and every slice, mean confidence minus the share
    right, minus that of the baseline of the same seed. None of runs without predictions.

    Confidence minus accuracy is linear in the examples, so that it can be tested; ECE, which is
    not, stands beside it with what a calibrated model of that n would show.
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
    effect = source.gap({"run_key": 1.0, "neither": -1.0}, runs, column)
    own = source.gap({"run_key": 1.0}, runs, column)
    reference = source.gap({"neither": 1.0}, runs, column)
    if effect is None or own is None or reference is None:
        return None
    keys, baselines = list(runs["run_key"]), list(runs["neither"])
    ece, null = (source.mean(name, keys, column) for name in ("ece", "ece_calibrated"))
    beside = f"; ECE {share(ece)}, a calibrated model of this n shows {share(null)}"
    beside = beside if math.isfinite(ece + null) else ""
    sure = source.confidence(keys, column)
    right = source.mean("recall", keys, column)

    def words(effect: Estimate) -> str:
        return (
            f"{at(line.epsilon)}, {of_line(line, best)} is surer on {of_slice(column)} than it is"
            f" right: mean confidence {share(sure)}, recall {share(right)}, a gap"
            f" {points(effect.mean)} {interval(effect)} wider than without privacy{beside}"
            f" ({basis(effect, column)})"
        )

    return Finding(
        "calibration", of_line(line, best), "baseline", "confidence − recall", column,
        line.epsilon, own.mean, reference.mean, effect, words,
        effect.mean > 0 and own.mean > 0, (*keys, *baselines),
    )  # fmt: skip
