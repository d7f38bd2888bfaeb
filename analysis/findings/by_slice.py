"""What is asked of every rule and ε, at its best C by validation, and of every slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from analysis.findings.model import Finding, shared
from analysis.findings.outcomes import Outcomes, Runs
from analysis.lines import Line
from analysis.slices import SliceColumn

Test: TypeAlias = Callable[[Outcomes, Line, int, SliceColumn, Runs], Finding | None]
"""Given a line, its best condition, a slice, and the runs with the baselines of the same seeds."""


def by_slice(source: Outcomes, test: Test) -> list[Finding]:
    """Return what ``test`` finds; it answers None where there is nothing to test."""
    found: list[Finding] = []
    for line, best in source.lines:
        runs = source.paired(best, "neither")
        tested = (test(source, line, best, column, runs) for column in source.compared)
        found += [finding for finding in tested if finding is not None]
    return shared(found)
