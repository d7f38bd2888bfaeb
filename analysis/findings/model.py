"""A finding: what was compared, by how much it differs, and the sentence that says so."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analysis.findings.statistics import LEVEL, Estimate, pooled
from analysis.slices import SliceColumn

KINDS = {
    "erasure": "recall on a slice falls more from the baseline than on all other test examples",
    "gradient": "a slice keeps another share of its gradient than all training records do",
    "attribution": "what clipping, noise and both together take of a slice's recall",
    "rule": "one rule against another on a slice, each at the C that validation chose",
    "threshold": "the largest C of a rule against its smallest",
    "memorisation": "exposure of all canaries, or the area of an attack on all members, falls from"
    " the baseline",
    "protection": "the same falls more or less of a slice than of all other slices",
    "calibration": "confidence above accuracy on a slice, beyond that of the baseline",
}


_BITS = 10.0


@dataclass(frozen=True)
class Finding:
    """One test. ``effect`` is in shares (0.1 is ten points), or in ``unit`` bits; ``q`` its p
    corrected for all tests.

    ``subject`` and ``against`` name what is compared; ``measure`` what is measured; ``n``
    counts the slice: test examples, or of kept the draws of a run; ``value`` and ``reference`` are
    the two means. ``words`` make the sentence from the effect.
    ``wanted``: whether this direction is worth a sentence.
    """

    kind: str
    subject: str
    against: str
    measure: str
    slice: SliceColumn
    n: int
    epsilon: float
    value: float
    reference: float
    effect: Estimate
    words: Callable[[Estimate], str]
    wanted: bool
    runs: tuple[str, ...]
    unit: str = "points"
    q: float = math.nan

    @property
    def sentence(self) -> str:
        """The sentence that says it all, true only where it is ``claimed``."""
        return self.words(self.effect)

    @property
    def claimed(self) -> bool:
        """Whether the corrected p is at most 0.05."""
        return self.q <= LEVEL

    @property
    def strength(self) -> float:
        """How far the end of the interval that is nearer to 0 is from it; ten bits, about what a
        thousand references can show, weigh as much as a share of 1.
        """
        most = _BITS if self.unit == "bits" else 1.0
        ends = (abs(self.effect.lo) / most, abs(self.effect.hi) / most)
        return min(ends) if math.isfinite(sum(ends)) else 0.0

    def corrected(self, q: float) -> Finding:
        """Return this finding with its corrected p."""
        return replace(self, q=q)


def shared(tests: Sequence[Finding]) -> list[Finding]:
    """Return tests of one kind whose variance over seeds is shared by those on the same slice."""
    groups: dict[SliceColumn, list[int]] = defaultdict(list)
    for place, test in enumerate(tests):
        groups[test.slice].append(place)
    found = list(tests)
    for places in groups.values():
        effects = pooled([tests[place].effect for place in places])
        for place, effect in zip(places, effects, strict=True):
            found[place] = replace(tests[place], effect=effect)
    return found
