"""How long a sweep will take, from what cells of its kind took before."""

from __future__ import annotations

import heapq
import socket
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.identity import flat_config
from dpsgd.experiment.settings import Cell
from dpsgd.experiment.sweep.rows import IndexRow

LOOKED_AT = 40
"""The cells that finished last tell how fast this machine is; opening all would take long."""

_ALIKE = ("config.model.", "config.device", "config.batch", "config.engine.name")

Kind = tuple[object, ...]


def seconds_left(
    cells: Sequence[tuple[Cell, int]], runs: Path, rows: Mapping[str, IndexRow], workers: int
) -> float | None:
    """Return the seconds that these cells, each with its steps, will take on this machine.

    A cell is as slow, step by step, as those of the same data, model, batch and device that
    finished here last. None: there is a kind of cell of which none has finished.
    """
    kinds = [kind_of(flat_config(cell), cell.data.name) for cell, _ in cells]
    known = _seconds_a_step(_latest(rows.values()), runs, set(kinds))
    if not known.keys() >= set(kinds):
        return None
    total = sum(known[kind] * steps for kind, (_, steps) in zip(kinds, cells, strict=True))
    return total / max(1, min(workers, len(cells) or 1))


def kind_of(flat: Mapping[str, Any], data: object) -> Kind:
    """Return what makes two cells as fast as one another, from their flat configuration."""
    alike = [(key, str(value)) for key, value in flat.items() if key.startswith(_ALIKE)]
    return (str(data), *sorted(alike))


def _latest(rows: Iterable[IndexRow]) -> list[IndexRow]:
    """Return the cells that were the last to finish on this machine."""
    host = socket.gethostname()
    here = [row for row in rows if row.host == host and row.seconds and row.steps]
    return heapq.nlargest(LOOKED_AT, here, key=lambda row: row.finished_at or "")


def _seconds_a_step(rows: Iterable[IndexRow], runs: Path, wanted: set[Kind]) -> dict[Kind, float]:
    found: dict[Kind, list[float]] = {}
    for row in rows:
        cell = read_json(runs / row.run_key / schema.CELL_FILE)
        if isinstance(cell, dict) and row.seconds and row.steps:
            kind = kind_of(cell, cell.get("data"))
            if kind in wanted:
                found.setdefault(kind, []).append(row.seconds / row.steps)
    return {kind: statistics.median(values) for kind, values in found.items()}
