"""Attribution: how much of a slice's fall is clipping, noise, and both together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.findings.model import Finding
from analysis.findings.outcomes import Outcomes, Runs
from analysis.findings.phrases import at, basis, of_line, of_slice, points
from analysis.findings.statistics import LEVEL, Estimate, pooled
from analysis.lines import Line
from analysis.slices import SliceColumn

_WEIGHTS = {
    "clipping": {"neither": 1.0, "clip_only": -1.0},
    "noise": {"neither": 1.0, "noise_only": -1.0},
    "both together": {"clip_only": 1.0, "noise_only": 1.0, "neither": -1.0, "run_key": -1.0},
}
"""Each effect as a sum of runs: with the fall neither − private, the three add up to it."""

_FALL = {"neither": 1.0, "run_key": -1.0}


def attributions(source: Outcomes) -> list[Finding]:
    """Return the three effects for every slice and rule, at the main ε and its best C; none where a
    seed lacks one of the four mechanisms. The three of a slice share a sentence.
    """
    splits: dict[SliceColumn, list[_Split]] = defaultdict(list)
    for line in source.cells.lines:
        if line.best is None:
            continue
        runs = source.paired(line.best, "clip_only", "noise_only", "neither")
        for column in source.slices:
            split = _split(source, line, line.best, column, runs)
            splits[column] += [split] if split is not None else []
    return [
        finding
        for column, found in splits.items()
        for split in _pooled(found)
        for finding in _findings(split, column)
    ]


@dataclass(frozen=True)
class _Split:
    line: Line
    best: int
    fall: Estimate
    effects: Mapping[str, Estimate]
    runs: tuple[str, ...]


def _split(
    source: Outcomes, line: Line, best: int, column: SliceColumn, runs: Runs
) -> _Split | None:
    fall = source.recall(_FALL, runs, column)
    effects: dict[str, Estimate] = {}
    for name, weights in _WEIGHTS.items():
        effect = source.recall(weights, runs, column)
        if effect is None:
            return None
        effects[name] = effect
    if fall is None:
        return None
    keys = tuple(key for own in runs.values() for key in own)
    return _Split(line, best, fall, effects, keys)


def _pooled(splits: Sequence[_Split]) -> list[_Split]:
    """Return the splits of one slice, each effect with the variance that the rules share."""
    own = {name: pooled([split.effects[name] for split in splits]) for name in _WEIGHTS}
    return [
        replace(split, effects={name: own[name][place] for name in _WEIGHTS})
        for place, split in enumerate(splits)
    ]


def _findings(split: _Split, column: SliceColumn) -> list[Finding]:
    told = ", ".join(f"{name} {_signed(one)}" for name, one in split.effects.items())
    fall, rule = split.fall, of_line(split.line, split.best)
    words = (
        f"{at(split.line.epsilon)}, {rule}: of the {points(fall.mean)} of recall lost on"
        f" {of_slice(column)}, {told} ({basis(fall, column)}; clipping and noise: each as it"
        " is without the other; diagnostic, not private)"
    )
    return [
        Finding(
            "attribution", rule, name, "part of the fall of recall", column, column.n_low,
            split.line.epsilon, effect.mean, fall.mean, effect, lambda _: words,
            fall.mean > 0 and _largest(split.effects, name), split.runs,
        )
        for name, effect in split.effects.items()
    ]  # fmt: skip


def _largest(effects: Mapping[str, Estimate], name: str) -> bool:
    """Say whether an effect is the largest: the sentence stands once, by its strongest part."""
    return abs(effects[name].mean) == max(abs(one.mean) for one in effects.values())


def _signed(effect: Estimate) -> str:
    number = f"{100 * effect.mean:.0f} [{100 * effect.lo:.0f}, {100 * effect.hi:.0f}]"
    unclear = "" if effect.p <= LEVEL else ", not told apart from 0"
    return f"{number}{unclear}".replace("-", "−")
