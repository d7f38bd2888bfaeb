"""Exposure of canaries by slice, of one audited run or of several that differ in their seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis import schema
from dpsgd.experiment.shadows import alike, label_of

METRICS = ("exposure", "exposure_extrapolated", "exposure_gap")


@dataclass(frozen=True)
class Exposed:
    """The exposure of one slice's canaries in bits, mean over runs of the mean over its canaries.

    ``canaries`` counts those that were in, over all runs. ``extrapolated`` goes by a fitted
    distribution; ``gap`` is the exposure minus that of all other canaries of a slice; both None
    where too few can say. ``between`` and ``gap_between`` are the 95 % intervals of one run, and of
    several the lowest and highest of their values.
    """

    kind: str
    name: str
    canaries: int
    exposure: float
    between: tuple[float, float] | None
    extrapolated: float | None
    gap: float | None
    gap_between: tuple[float, float] | None


@dataclass(frozen=True)
class ExposedGroup:
    """Runs that differ in their seed alone: ``label`` without it, how many ``runs``, the slices."""

    label: str
    runs: int
    slices: list[Exposed]


def exposed(
    folders: Sequence[Path], cells: Sequence[Mapping[str, Any]]
) -> Iterator[ExposedGroup]:  # fmt: skip
    """Yield what the canaries of each group of audited runs say, slice by slice."""
    for members in alike(folders, cells, ("canaries",)):
        tables = [_table(cell) for _, cell in members]
        names = {(kind, name) for table in tables for kind, name, _ in table}
        slices = [_slice(kind, name, tables) for kind, name in sorted(names, key=_place)]
        found = [one for one in slices if one is not None]
        if found:
            yield ExposedGroup(label_of(members[0][1]), len(members), found)


_Row = Mapping[str, Any]
_Table = dict[tuple[str, str, str], _Row]


def _place(of: tuple[str, str]) -> tuple[int, str]:
    kind, name = of
    return schema.SLICE_KINDS.index(kind), name


def _slice(kind: str, name: str, tables: Sequence[_Table]) -> Exposed | None:
    ranked, fitted, gaps = (
        [table[kind, name, metric] for table in tables if (kind, name, metric) in table]
        for metric in METRICS
    )
    mean = _mean(ranked)
    if mean is None:
        return None
    return Exposed(kind, name, sum(row["n"] for row in ranked), mean, _between(ranked),
                   _mean(fitted), _mean(gaps), _between(gaps))  # fmt: skip


def _mean(rows: Sequence[_Row]) -> float | None:
    return fmean(row["value"] for row in rows) if rows else None


def _between(rows: Sequence[_Row]) -> tuple[float, float] | None:
    if len(rows) > 1:
        values = [row["value"] for row in rows]
        return min(values), max(values)
    if not rows or rows[0]["lo"] is None or rows[0]["hi"] is None:
        return None
    return rows[0]["lo"], rows[0]["hi"]


def _table(cell: Mapping[str, Any]) -> _Table:
    names = ("split", "slice_kind", "slice", "metric", "value", "lo", "hi", "n")
    columns = (cell.get("metrics", {}).get(name, ()) for name in names)
    rows: list[_Row] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return {
        (row["slice_kind"], row["slice"], row["metric"]): row
        for row in rows
        if row["split"] == schema.AUDIT_SPLIT and row["metric"] in METRICS
        and row["value"] is not None
    }  # fmt: skip
