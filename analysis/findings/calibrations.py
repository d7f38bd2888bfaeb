"""Calibration: where a private model is surer than it is right, beyond what the baseline is."""

from __future__ import annotations

import math

from analysis.findings.by_slice import by_slice
from analysis.findings.model import Finding
from analysis.findings.outcomes import Outcomes, Runs
from analysis.findings.phrases import at, basis, interval, of_line, of_slice, points, share
from analysis.findings.statistics import Estimate
from analysis.lines import Line
from analysis.slices import SliceColumn


def calibrations(source: Outcomes) -> list[Finding]:
    """Return, for every rule and ε at its best C and every slice, mean confidence minus the share
    right, minus that of the baseline of the same seed. None of runs without predictions.

    Confidence minus accuracy is linear in the examples, so that it can be tested; ECE, which is
    not, stands beside it with what a calibrated model of that n would show.
    """
    return by_slice(source, _of_slice)


def _of_slice(
    source: Outcomes, line: Line, best: int, column: SliceColumn, runs: Runs
) -> Finding | None:
    effect = source.gap({"run_key": 1.0, "neither": -1.0}, runs, column)
    own = source.gap({"run_key": 1.0}, runs, column)
    reference = source.gap({"neither": 1.0}, runs, column)
    if effect is None or own is None or reference is None:
        return None
    keys, baselines = runs["run_key"], runs["neither"]
    ece, null = (source.means(name, keys, column) for name in ("ece", "ece_calibrated"))
    beside = f"; ECE {share(ece)}, a calibrated model of this n shows {share(null)}"
    beside = beside if math.isfinite(ece + null) else ""
    sure = source.confidence(keys, column)
    right = source.means("recall", keys, column)

    def words(effect: Estimate) -> str:
        return (
            f"{at(line.epsilon)}, {of_line(line, best)} is surer on {of_slice(column)} than it is"
            f" right: mean confidence {share(sure)}, recall {share(right)}, a gap"
            f" {points(effect.mean)} {interval(effect)} wider than without privacy{beside}"
            f" ({basis(effect, column)})"
        )

    return Finding(
        "calibration", of_line(line, best), "baseline", "confidence − recall", column,
        column.n_low,
        line.epsilon, own.mean, reference.mean, effect, words,
        effect.mean > 0 and own.mean > 0, (*keys, *baselines),
    )  # fmt: skip
