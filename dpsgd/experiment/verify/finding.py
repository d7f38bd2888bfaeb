"""What a check of a ledger finds: a mismatch, or a remark that is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MISSING = "(nothing)"


@dataclass(frozen=True)
class Mismatch:
    """One thing that does not hold: what, in which file, what was expected, what was found."""

    what: str
    where: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}, in {self.where}: expected {self.expected}, found {self.found}"


@dataclass
class Findings:
    """Mismatches and remarks of one run, in the order in which they were found.

    ``checked`` counts the comparisons that were made.
    """

    mismatches: list[Mismatch] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    checked: int = 0

    def equal(self, what: str, where: str, expected: Any, found: Any) -> None:
        """Compare two values: of JSON, exactly."""
        self.that(_alike(expected, found), what, where, expected, found)

    def near(self, what: str, where: str, expected: float, found: Any, tolerance: float) -> None:
        """Compare two numbers up to a relative tolerance."""
        fits = (
            isinstance(found, int | float)
            and not isinstance(found, bool)
            and (expected == found or math.isclose(expected, found, rel_tol=tolerance))
        )
        self.that(fits, what, where, expected, found)

    def that(self, holds: bool, what: str, where: str, expected: Any, found: Any) -> None:
        """Note a mismatch unless ``holds``."""
        self.checked += 1
        if not holds:
            self.mismatches.append(Mismatch(what, where, _short(expected), _short(found)))

    def nested(self, what: str, where: str, expected: Any, found: Any) -> None:
        """Compare two values of JSON, mapping inside mapping, so that what differs is named."""
        if not (isinstance(expected, Mapping) and isinstance(found, Mapping)):
            self.equal(what, where, expected, found)
            return
        for key in dict.fromkeys([*expected, *found]):
            left, right = expected.get(key, _MISSING), found.get(key, _MISSING)
            self.nested(f"{what}.{key}", where, left, right)

    def items(
        self, what: str, where: str, expected: Mapping[str, Any], found: Mapping[str, Any]
    ) -> None:
        """Compare two mappings key by key, those that only one of them has included."""
        for key in dict.fromkeys([*expected, *found]):
            left, right = expected.get(key, _MISSING), found.get(key, _MISSING)
            self.equal(f"{what} {key}", where, left, right)


def _alike(left: Any, right: Any) -> bool:
    # True is not 1, and an exact number may be written 256 or 256.0.
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
