"""What the panel of a cell shows, read from the run folders as far as there is room for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import schema
from analysis.page.command import command
from analysis.page.ledgers import ledger_summary
from analysis.page.norms import norm_windows
from analysis.page.numbers import column
from analysis.page.reliability import BINS, reliability
from analysis.slices import SliceColumn

_NUMBERS = 450_000
_MOST_WINDOWS, _FEWEST_WINDOWS = 12, 2
_MOST_RUNS = 900
_DETAILED = 3_000
"""Conditions above which no panel has charts of its own."""


@dataclass(frozen=True)
class Budget:
    """How much detail fits: ``windows`` of norms a condition, ``seeds`` read of each; 0 is none."""

    windows: int
    seeds: int
    conditions: int

    @classmethod
    def of(cls, conditions: int, cells: int, slices: int) -> Budget:
        """Share the room among ``conditions`` of ``cells`` runs in all, each of ``slices``."""
        if conditions > _DETAILED:
            return cls(0, 0, conditions)
        each = _NUMBERS / max(1, conditions * slices) - 3 * BINS
        windows = int(each / (2 * len(schema.QUANTILES)))
        seeds = cells if cells <= _MOST_RUNS else max(1, _MOST_RUNS // conditions)
        return cls(max(_FEWEST_WINDOWS, min(_MOST_WINDOWS, windows)), seeds, conditions)

    def notes(self) -> list[str]:
        """Return what was left out for want of room, as sentences."""
        if self.windows == 0:
            return [f"{self.conditions} rows: too many for norms and diagrams of each."]
        thinned = self.windows < _MOST_WINDOWS
        return [f"Norms at {self.windows} times in each run, for want of room."] if thinned else []


def details(
    runs: Path, keys: Sequence[Sequence[str]], columns: Sequence[SliceColumn], budget: Budget
) -> dict[str, Any]:
    """Return ``norms``, ``reliability``, ``ledgers`` and ``commands``, one entry a condition.

    ``keys`` are the run keys of each condition. Norms and diagrams are means over its first seeds,
    ledger and command those of its first run. Equal lists in ledgers are kept once, in ``texts``.
    """
    texts: dict[tuple[str, ...], int] = {}
    found: dict[str, list[Any]] = {"norms": [], "reliability": [], "ledgers": [], "commands": []}
    for own in keys:
        folders = [runs / key for key in own[: budget.seeds]]
        found["norms"].append(_norms(folders, columns, budget.windows))
        bins = reliability(folders, columns) if folders else None
        found["reliability"].append(None if bins is None else column(bins))
        found["ledgers"].append(_ledger(runs / own[0], texts))
        found["commands"].append(command(runs / own[0]))
    return {**found, "texts": [list(lines) for lines in texts], "bins": BINS}


def _norms(
    folders: Sequence[Path], columns: Sequence[SliceColumn], windows: int
) -> dict[str, Any] | None:
    found = norm_windows(folders, columns, windows) if folders else None
    if found is None:
        return None
    return found | {
        "quantiles": column(found["quantiles"]),
        "threshold": column(found["threshold"]),
    }


def _ledger(folder: Path, texts: dict[tuple[str, ...], int]) -> dict[str, Any] | None:
    summary = ledger_summary(folder)
    if summary is None:
        return None
    lines = tuple(summary.pop("not_covered"))
    return summary | {"not_covered": texts.setdefault(lines, len(texts))}
