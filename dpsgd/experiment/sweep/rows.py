"""One line of the index: what a sweep and a list need to know of a cell, without its folder."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from analysis import schema

FINISHED, RUNNING = "FINISHED", "RUNNING"


@dataclass(frozen=True)
class IndexRow:
    """What is remembered of a cell. ``status`` is FINISHED, or RUNNING for one that has begun.

    Times are as the run folder states them; a released run withholds how long it took and on which
    host. ``epsilon`` is infinite without privacy; ``accuracy`` and ``worst`` are those of the test
    split. None: not known, or not there to be known.
    """

    run_key: str
    status: str
    label: str
    epsilon: float | None
    accuracy: float | None
    worst: float | None
    steps: int | None
    seconds: float | None
    seconds_training: float | None
    result_version: str | None
    started_at: str | None
    finished_at: str | None
    host: str | None


_FIELDS = tuple(field.name for field in dataclasses.fields(IndexRow))
_TEXTS = ("result_version", "started_at", "finished_at", "host")
_NUMBERS = ("epsilon", "accuracy", "worst", "seconds", "seconds_training")


def finished_row(cell: Mapping[str, Any], status: Mapping[str, Any]) -> IndexRow:
    """Return the row of a finished cell from its ``cell.json`` and ``status.json``."""
    finals = _finals(cell["metrics"])
    steps = cell.get("steps_taken", cell.get("steps"))
    return IndexRow(
        run_key=str(cell["run_key"]),
        status=FINISHED,
        label=str(cell["label"]),
        epsilon=_number(cell.get("epsilon")),
        accuracy=finals.get("accuracy"),
        worst=finals.get("tail_worst"),
        steps=steps if isinstance(steps, int) else None,
        seconds=_number(cell.get("seconds")),
        seconds_training=_number(cell.get("seconds_training")),
        result_version=_text(cell.get("result_version")),
        started_at=_text(status.get("started_at")),
        finished_at=_text(cell.get("finished_at")),
        host=_text(status.get("host")),
    )


def begun_row(run_key: str, label: str, started_at: str | None) -> IndexRow:
    """Return the row of a cell that begins to train: what was known of its key holds no more."""
    unknown = dict.fromkeys(_FIELDS)
    known = {"run_key": run_key, "status": RUNNING, "label": label, "started_at": started_at}
    return IndexRow(**{**unknown, **known})  # pyright: ignore[reportArgumentType]


def read_row(folder: Path) -> IndexRow | None:
    """Return the row of a run folder, None unless it holds a finished run.

    Raises OSError for files that are there and cannot be read.
    """
    status = _read(folder / schema.STATUS_FILE)
    if status is None or status.get("status") != FINISHED:
        return None
    cell = _read(folder / schema.CELL_FILE)
    try:
        return None if cell is None else finished_row(cell, status)
    except (KeyError, TypeError, ValueError):
        return None


def line_of(row: IndexRow) -> bytes:
    """Return a row as one line of JSON, its end included."""
    values = dataclasses.asdict(row)
    if row.epsilon is not None and math.isinf(row.epsilon):
        values["epsilon"] = "inf"
    return json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def row_of(line: bytes) -> IndexRow | None:
    """Return the row that a line holds, None if it is torn or of another shape."""
    try:
        values = from_json(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or values.keys() != set(_FIELDS):
        return None
    values["epsilon"] = _number(values["epsilon"])
    texts = all(isinstance(values[name], str) for name in ("run_key", "status", "label"))
    texts = texts and all(isinstance(values[name], str | None) for name in _TEXTS)
    numbers = all(isinstance(values[name], float | int | None) for name in (*_NUMBERS, "steps"))
    return IndexRow(**values) if texts and numbers else None


def _finals(metrics: Mapping[str, list[Any]]) -> dict[str, float | None]:
    """Return the metrics of the whole test split."""
    columns = (metrics[name] for name in ("split", "slice_kind", "metric", "value"))
    return {
        metric: _number(value)
        for split, kind, metric, value in zip(*columns, strict=True)
        if split == "test" and kind == schema.GROUP_ALL
    }


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content = from_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _number(value: Any) -> float | None:
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
