"""One rule against another at the same ε, and one C of a rule against another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from analysis.findings.model import Finding, shared
from analysis.findings.outcomes import Outcomes, Runs
from analysis.findings.phrases import at, basis, interval, of_line, of_slice, points, share
from analysis.findings.statistics import Estimate
from analysis.lines import Line
from analysis.slices import SliceColumn

_WEIGHTS = {"one": 1.0, "two": -1.0}


def rules(source: Outcomes) -> list[Finding]:
    """Return every pair of rules at one ε on every slice, each at its best C by validation.

    Pairs of runs are of the same seed: initial weights and test examples are shared, batches and
    noise are not. Rules on another footing (``footing``) are no rivals.
    """
    found: list[Finding] = []
    by_epsilon: dict[float, list[tuple[Line, int]]] = defaultdict(list)
    for line, best in source.lines:
        by_epsilon[line.epsilon].append((line, best))
    for epsilon, lines in by_epsilon.items():
        for (one, first), (two, second) in combinations(lines, 2):
            if source.footings[first] != source.footings[second]:
                continue
            runs = _runs(source, first, second)
            names = (of_line(one, first), of_line(two, second))
            for column in source.slices:
                idle = ", or its smallest where C does nothing" if one.idle or two.idle else ""
                more = f"each rule at the C that did best in validation{idle}; "
                found += _against("rule", source, epsilon, names, runs, column, more)
    return shared(found)


def thresholds(source: Outcomes) -> list[Finding]:
    """Return, at the main ε, every rule's largest C against its smallest, on every slice.

    The two ends are taken, not the best and the worst, so that nothing was chosen by its result.
    None of a rule to which C does nothing.
    """
    found: list[Finding] = []
    for line in source.cells.lines:
        places = [place for place, norm in enumerate(line.norms) if np.isfinite(norm)]
        if line.idle or len(places) < 2:
            continue
        small, large = line.conditions[places[0]], line.conditions[places[-1]]
        if source.footings[small] != source.footings[large]:
            continue
        runs = _runs(source, large, small)
        names = (of_line(line, large), f"C = {line.norm(small):g}")
        more = _scale(source, runs["one"])
        for column in source.slices:
            found += _against("threshold", source, line.epsilon, names, runs, column, more)
    return shared(found)


def _against(
    kind: str, source: Outcomes, epsilon: float, names: tuple[str, str], runs: Runs,
    column: SliceColumn, more: str,
) -> list[Finding]:  # fmt: skip
    effect = source.recall(_WEIGHTS, runs, column)
    if effect is None:
        return []
    values = [source.means("recall", runs[name], column) for name in ("one", "two")]
    (better, high), (worse, low) = [
        (names[place], values[place]) for place in ((0, 1) if effect.mean >= 0 else (1, 0))
    ]
    better, worse = _whole(better, names), _whole(worse, names)
    verb = "is right on" if column.kind == "all" else "recognises"

    def words(effect: Estimate) -> str:
        return (
            f"{at(epsilon)}, {better} {verb} {of_slice(column)} better than {worse}: recall"
            f" {share(high)} against {share(low)}, {points(effect.mean)} {interval(effect)} more"
            f" ({more}{basis(effect, column)})"
        )

    keys = (*runs["one"], *runs["two"])
    return [Finding(kind, names[0], names[1], "recall", column, column.n_low, epsilon,
                    values[0], values[1], effect, words, True, keys)]  # fmt: skip


def _whole(name: str, names: tuple[str, str]) -> str:
    """Return a name with its rule: of two C of one rule the second has none."""
    rule = names[0].rsplit(" at C", 1)[0]
    return f"{rule} at {name}" if name.startswith("C = ") else name


def _scale(source: Outcomes, keys: Sequence[str]) -> str:
    """Return how the learning rate went with C, where the cells say so."""
    table = source.cells.table
    found = table.loc[table["run_key"].isin(list(keys)), "lr_scale"].dropna().unique()
    return f"lr_scale={found[0]}; " if len(found) else ""


def _runs(source: Outcomes, one: int, two: int) -> Runs:
    """Return the run keys of two conditions, ``one`` and ``two``, in the order of shared seeds."""
    named = source.cells.named
    keys = [
        dict(zip(own["replicate"], own["run_key"], strict=True))
        for own in (named.loc[named["condition"] == place, :] for place in (one, two))
    ]
    seeds = sorted(set(keys[0]) & set(keys[1]))
    return {name: [str(own[seed]) for seed in seeds]
            for name, own in zip(("one", "two"), keys, strict=True)}  # fmt: skip
