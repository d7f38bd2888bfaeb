"""What a rule leaves of a slice's gradient, beside what it leaves of everybody's."""

from __future__ import annotations

import math

import numpy as np

from analysis import schema
from analysis.findings.model import Finding, shared
from analysis.findings.outcomes import Outcomes
from analysis.findings.phrases import at, interval, of_line, of_slice, percent
from analysis.findings.statistics import Estimate, over_seeds
from analysis.lines import Line
from analysis.slices import SliceColumn


def gradients(source: Outcomes) -> list[Finding]:
    """Return for every rule at the main ε, at its best C, and every slice: kept of the slice
    over kept of all, minus 1. Over seeds alone: the records are all that training drew.
    """
    found: list[Finding] = []
    for line in source.cells.lines:
        if line.best is None:
            continue
        best = line.best
        for column in source.compared:
            finding = _of_slice(source, line, best, column)
            found += [finding] if finding is not None else []
    return shared(found)


def _of_slice(source: Outcomes, line: Line, best: int, column: SliceColumn) -> Finding | None:
    keys = source.cells.keys([best])
    whole = next((one for one in source.cells.columns if one.kind == "all"), None)
    if whole is None:
        return None
    kept = source.by_metric("kept", "train", schema.PROBE).of(keys)
    own, every = (kept[:, source.cells.columns.index(one)] for one in (column, whole))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = own / every - 1
    ratio = ratio[np.isfinite(ratio)]
    if len(ratio) == 0:
        return None
    means = [source.means("kept", keys, one) for one in (column, whole)]
    fractions = [source.means("clip_fraction", keys, one) for one in (column, whole)]
    draws = source.draws(keys, column)
    marked = source.marked(keys)

    def words(effect: Estimate) -> str:
        less = "less" if effect.mean < 0 else "more"
        return (
            f"{at(line.epsilon)}, {of_line(line, best)} keeps {percent(means[0])} of the gradient"
            f" of {of_slice(column)} and {percent(means[1])} of all:"
            f" {abs(100 * effect.mean):.0f} % {interval(effect)} {less}. It clips"
            f" {percent(fractions[0])} of the slice's units and {percent(fractions[1])} of all"
            f" ({effect.seeds} seeds, n = {draws}, the draws of a run{marked})"
        )

    return Finding(
        "gradient", of_line(line, best), "all records", "kept, relative", column, draws,
        line.epsilon, means[0], means[1], over_seeds(ratio).cut((-1.0, math.inf)), words,
        float(ratio.mean()) < 0, tuple(keys),
    )  # fmt: skip
