"""Memorisation: how much less is remembered than without privacy, and whether of a slice more so.

Who paid is what ``erasures`` asks; here, whether what a slice paid bought it any protection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.audits import CHANCE
from analysis.findings.model import Finding
from analysis.findings.outcomes import Outcomes, Runs
from analysis.findings.phrases import at, bits, of_line, of_slice, points, share
from analysis.findings.statistics import Estimate, over_seeds
from analysis.interval import ANY, DIFFERENCE, Range
from analysis.lines import Line
from analysis.slices import SliceColumn

FEWEST = 5
"""Records of a slice with a coin, the mean over runs: of fewer nothing is tested."""

_FALL = {"neither": 1.0, "run_key": -1.0}
_EXPOSURE, _AREA = "exposure", "membership_auc"
_OF = {"canaries": _EXPOSURE, "membership": _AREA}


def memorisations(source: Outcomes) -> list[Finding]:
    """Return for every audited rule and ε, at its best C by validation: the fall of exposure
    (``audit=canaries``) or of the attack's area (``audit=membership``) from the baseline of the
    same seed; and of every slice that fall minus that of all other records with a coin.

    Over seeds, which flip the coins anew. Neither a mean nor an area is biased by the number of
    records, so that slices of unequal size compare. Rules do not share their variance over seeds:
    it is mostly that of the one baseline, and theirs would be counted as if it were each one's own.
    """
    found: list[Finding] = []
    for line, best in source.lines:
        runs = source.paired(best, "neither")
        metric = _OF.get(source.audit(runs["run_key"]))
        for column in source.slices if metric is not None else ():
            measured = _Measured.of(source, str(metric), runs, column)
            if measured is not None:
                found.append(_finding(source, line, best, measured))
    return found


@dataclass(frozen=True)
class _Measured:
    """A metric of a slice before (baseline) and after, and of all other records; ``[seeds]``."""

    metric: str
    column: SliceColumn
    runs: Runs
    n: int
    before: np.ndarray
    after: np.ndarray
    others_before: np.ndarray
    others_after: np.ndarray

    @classmethod
    def of(cls, source: Outcomes, metric: str, runs: Runs, column: SliceColumn) -> _Measured | None:
        sides = (runs["neither"], runs["run_key"])
        before, after = (source.audited(metric, keys, column) for keys in sides)
        others = [np.zeros_like(before)] * 2
        if column.kind != "all":
            gaps = [source.audited(f"{metric}_gap", keys, column) for keys in sides]
            others = [before - gaps[0], after - gaps[1]]
        known = np.isfinite(before + after + others[0] + others[1])
        n = source.coins(metric, runs["run_key"], column)
        if not known.any() or n < FEWEST:
            return None
        return cls(metric, column, runs, n, before[known], after[known],
                   others[0][known], others[1][known])  # fmt: skip

    @property
    def falls(self) -> np.ndarray:
        return self.before - self.after - (self.others_before - self.others_after)

    @property
    def within(self) -> Range:
        """What the falls can be: of an area from −1 to 1, less another fall from −2 to 2."""
        if self.metric == _EXPOSURE:
            return ANY
        return DIFFERENCE if self.column.kind == "all" else (-2.0, 2.0)

    def size(self, value: float) -> str:
        """Return a difference in words, without sign."""
        return bits(value) if self.metric == _EXPOSURE else points(value)

    def ends(self, effect: Estimate) -> str:
        low, high = sorted(math.copysign(1, effect.mean) * end for end in (effect.lo, effect.hi))
        scale, digits = (1, 1) if self.metric == _EXPOSURE else (100, 0)
        return f"[{scale * low:.{digits}f}, {scale * high:.{digits}f}]".replace("-", "−")

    def fell(self, before: np.ndarray, after: np.ndarray) -> str:
        """Return from what to what it fell, or rose."""
        verb = "fell" if after.mean() <= before.mean() else "rose"
        start, end = float(before.mean()), float(after.mean())
        if self.metric == _EXPOSURE:
            return f"{verb} from {start:.1f} to {bits(end)}"
        return f"{verb} from {share(start)} to {share(end)}"


def _finding(source: Outcomes, line: Line, best: int, one: _Measured) -> Finding:
    whole = one.column.kind == "all"

    def words(effect: Estimate) -> str:
        told = _of_all(one, effect) if whole else f"{_paid(source, one)}{_of_part(one, effect)}"
        return (
            f"{at(line.epsilon)}, {of_line(line, best)}: {told} ({effect.seeds} seeds, n = {one.n}"
            " records a run; diagnostic, not private; for other seeds and coins on the same"
            " records)"
        )

    fell = float((one.before - one.after).mean())
    rest = float((one.others_before - one.others_after).mean())
    return Finding(
        "memorisation" if whole else "protection", of_line(line, best),
        "the baseline" if whole else "all other slices",
        f"fall of {one.metric}", one.column, one.n, line.epsilon, fell, rest,
        over_seeds(one.falls).cut(one.within), words, True,
        (*one.runs["run_key"], *one.runs["neither"]),
        unit="bits" if one.metric == _EXPOSURE else "points",
    )  # fmt: skip


def _of_all(one: _Measured, effect: Estimate) -> str:
    what = "the exposure of all canaries" if one.metric == _EXPOSURE \
        else "the area of an attack on all members"  # fmt: skip
    chance = bits(CHANCE[_EXPOSURE]) if one.metric == _EXPOSURE else share(CHANCE[_AREA])
    less = "less" if effect.mean >= 0 else "more"
    return (
        f"{what} {one.fell(one.before, one.after)} by privacy, {one.size(effect.mean)}"
        f" {one.ends(effect)} {less}; a model that remembers nobody shows {chance}"
    )


def _of_part(one: _Measured, effect: Estimate) -> str:
    what = "the exposure of its canaries" if one.metric == _EXPOSURE \
        else "the area of an attack on its members"  # fmt: skip
    more = "more" if effect.mean >= 0 else "less"
    return (
        f"{what} {one.fell(one.before, one.after)}, that of all other slices’"
        f" {one.fell(one.others_before, one.others_after)}: it was protected by"
        f" {one.size(effect.mean)} {one.ends(effect)} {more}"
    )


def _paid(source: Outcomes, one: _Measured) -> str:
    """Return what the slice, and all others, lost in recall; in words, for the sentence's start."""
    fall = source.recall(_FALL, one.runs, one.column)
    beyond = source.recall(_FALL, one.runs, one.column, against_rest=True)
    if fall is None:
        return f"of {of_slice(one.column)} "
    change = "lost" if fall.mean >= 0 else "gained"
    told = f"{of_slice(one.column)} {change} {points(fall.mean)} of recall"
    if beyond is not None:
        others = fall.mean - beyond.mean
        told += f", all other examples {'lost ' if others >= 0 else 'gained '}{points(others)}"
    return f"{told}; "
