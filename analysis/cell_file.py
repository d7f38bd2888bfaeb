"""One ``cell.json``: checked, and turned into one row of scalars and columns of metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from analysis import schema
from analysis.cell_metrics import Metrics, MetricsReader, UnusableCellError, is_number

SCALARS: Mapping[str, str] = {
    **dict.fromkeys(("run_key", "baseline_key", "label", "status", "rule", "mechanism"), "string"),
    **dict.fromkeys(("model", "data", "unit", "unit_name", "relation", "accountant"), "string"),
    **dict.fromkeys(("stopped_by", "lr_scale", "finished_at", "result_version"), "string"),
    **dict.fromkeys(("schema", "seed", "data_seed", "steps"), "Int64"),
    **dict.fromkeys(("steps_planned", "n_units", "micro_batch"), "Int64"),
    **dict.fromkeys(("clip_norm", "epsilon", "epsilon_target", "delta"), "float64"),
    **dict.fromkeys(("noise_multiplier", "lr", "batch", "seconds"), "float64"),
    **dict.fromkeys(("seconds_training", "seconds_evaluation"), "float64"),
    **dict.fromkeys(("private", "diagnostic"), "boolean"),
}
"""Pandas dtype of every scalar that the atlas itself reads; others are typed by their values."""

REQUIRED = ("run_key", "rule", "mechanism", "model", "data", "seed", "epsilon", "private")


@dataclass(frozen=True)
class Cell:
    """A finished cell: ``scalars`` by name, and its metrics."""

    scalars: dict[str, Any]
    metrics: Metrics


def read_cell(path: Path, metrics: MetricsReader | None = None) -> Cell:
    """Read and check one ``cell.json``; the same ``metrics`` for many cells is faster.

    Raises ``UnusableCellError``: unreadable, not JSON, not finished, newer schema, incomplete.
    """
    raw, reader = _bytes(path), metrics or MetricsReader()
    try:
        cell = _cell(path, orjson.loads(raw), reader)
    except ValueError:
        cell = None
    # In doubt by the slower standard library: it knows NaN, and whole numbers of any size.
    return cell if cell and not _rounded(cell) else _cell(path, _json(path.name, raw), reader)


def _cell(path: Path, content: Any, metrics: MetricsReader) -> Cell:
    if not isinstance(content, dict):
        raise UnusableCellError(f"{path.name} is not a JSON object")
    status = content.get("status")
    if status != "FINISHED":
        raise UnusableCellError(f"status {status}" if status else f"{path.name} has no status")
    if content.get("schema") != schema.SCHEMA_VERSION:
        found = content.get("schema")
        raise UnusableCellError(f"schema {found}, this atlas reads {schema.SCHEMA_VERSION}")
    missing = [name for name in REQUIRED if content.get(name) is None]
    if missing:
        raise UnusableCellError(f"{path.name} lacks {', '.join(missing)}")
    return Cell(_scalars(content), metrics(content.get("metrics")))


def _rounded(cell: Cell) -> bool:
    """Say whether a number may stand for a whole one that is too large for 64 bits."""
    if (np.abs(cell.metrics.numbers) >= _LARGE).any():
        return True
    found = [value for value in cell.scalars.values() if type(value) is float]
    return any(_LARGE <= abs(value) < math.inf for value in found)


def read_status(path: Path) -> str:
    """Return the status that ``status.json`` states, or ``unknown``."""
    try:
        content = _json(path.name, _bytes(path))
    except UnusableCellError:
        return "unknown"
    return str(content.get("status", "unknown")) if isinstance(content, dict) else "unknown"


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusableCellError(f"{path.name} cannot be read: {error.strerror}") from error


def _json(name: str, raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # covers bad UTF-8 and a file cut short
        raise UnusableCellError(f"{name} is not valid JSON") from error


_LARGE = 2.0**63
_EXACT = {"string": str, "boolean": bool, "Int64": int, "float64": float}


def _scalars(content: Mapping[str, Any]) -> dict[str, Any]:
    scalars = {key: value for key, value in content.items() if type(value) not in (list, dict)}
    for name, dtype in SCALARS.items():
        value = scalars.get(name)
        if value is not None and (type(value) is not _EXACT[dtype] or dtype == "Int64"):
            scalars[name] = _typed(name, value, dtype)
    if scalars.keys().isdisjoint(schema.CELL_METRICS):
        return scalars
    # A scalar may not take the place of a column of the metrics.
    return {f"cell.{key}" if key in schema.CELL_METRICS else key: v for key, v in scalars.items()}


def _typed(name: str, value: Any, dtype: str) -> Any:
    if dtype == "string":
        return str(value)
    if dtype == "boolean":
        fits = isinstance(value, bool)
    elif dtype == "Int64":
        fits = isinstance(value, int) and is_number(value)
    else:
        value = float(value) if value in ("inf", "-inf") else value
        fits = is_number(value)
    if not fits:
        raise UnusableCellError(f"{name} is {value!r}, not of type {dtype.lower()}")
    return value
