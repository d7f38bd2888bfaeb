"""What a rule leaves of a slice's gradient, beside what it leaves of everybody's."""

from __future__ import annotations

import numpy as np

from analysis.findings.model import Finding, shared
from analysis.findings.outcomes import Outcomes
from analysis.findings.phrases import at, interval, of_line, of_slice, percent
from analysis.findings.statistics import Estimate, over_seeds
from analysis.lines import Line, private_lines
from analysis.slices import SliceColumn


def gradients(source: Outcomes) -> list[Finding]:
    """Return for every rule and ε, at its best C by validation, and every slice: kept of the slice
    over kept of all, minus 1. Over seeds alone: the records are all that training drew.
    """
    found: list[Finding] = []
    for line in private_lines(source.cells.table, source.cells.named):
        if line.best is None:
            continue
        for column in source.compared:
            finding = _of_slice(source, line, line.best, column)
            found += [finding] if finding is not None else []
    return shared(found)


def _of_slice(source: Outcomes, line: Line, best: int, column: SliceColumn) -> Finding | None:
    keys = source.cells.keys([best])
    place, whole = (column.kind, column.name), ("all", "all")
    kept, clipped = (source.of_training(name).reindex(keys) for name in ("kept", "clip_fraction"))
    if whole not in kept:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = kept[place].to_numpy(float) / kept[whole].to_numpy(float) - 1
    ratio = ratio[np.isfinite(ratio)]
    if len(ratio) == 0:
        return None
    means = [float(kept[where].mean()) for where in (place, whole)]
    fractions = [float(clipped[where].mean()) for where in (place, whole)]
    marked = source.marked(("kept", "clip_fraction"), keys)

    def words(effect: Estimate) -> str:
        less = "less" if effect.mean < 0 else "more"
        return (
            f"{at(line.epsilon)}, {of_line(line, best)} keeps {percent(means[0])} of the gradient of"
            f" {of_slice(column)} and {percent(means[1])} of all:"
            f" {abs(100 * effect.mean):.0f} % {interval(effect)} {less}. It clips"
            f" {percent(fractions[0])} of the slice's units and {percent(fractions[1])} of all"
            f" ({effect.seeds} seeds; all records that training drew{marked})"
        )

    return Finding(
        "gradient", of_line(line, best), "all records", "kept, relative", column, line.epsilon,
        *means, over_seeds(ratio), words, float(ratio.mean()) < 0, tuple(keys),
    )  # fmt: skip
