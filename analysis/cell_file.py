"""One ``cell.json``: checked, and turned into one row of scalars and columns of metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from analysis import schema

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


class UnusableCellError(ValueError):
    """A folder that cannot be a point of the atlas; the text is the reason, in a few words."""


@dataclass(frozen=True)
class Cell:
    """A finished cell: ``scalars`` by name, ``metrics`` as equally long columns."""

    scalars: dict[str, Any]
    metrics: dict[str, list[Any]]


def read_cell(path: Path) -> Cell:
    """Read and check one ``cell.json``.

    Raises ``UnusableCellError``: unreadable, not JSON, not finished, newer schema, incomplete.
    """
    content = _json(path)
    status = content.get("status")
    if status != "FINISHED":
        raise UnusableCellError(f"status {status}" if status else f"{path.name} has no status")
    if content.get("schema") != schema.SCHEMA_VERSION:
        found = content.get("schema")
        raise UnusableCellError(f"schema {found}, this atlas reads {schema.SCHEMA_VERSION}")
    missing = [name for name in REQUIRED if content.get(name) is None]
    if missing:
        raise UnusableCellError(f"{path.name} lacks {', '.join(missing)}")
    return Cell(_scalars(content), _metrics(content.get("metrics")))


def read_status(path: Path) -> str:
    """Return the status that ``status.json`` states, or ``unknown``."""
    try:
        return str(_json(path).get("status", "unknown"))
    except UnusableCellError:
        return "unknown"


def is_number(value: Any) -> bool:
    """Say whether a JSON value is a number that a 64-bit column can hold."""
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # covers bad UTF-8 and a file cut short
        raise UnusableCellError(f"{path.name} is not valid JSON") from error
    except OSError as error:
        raise UnusableCellError(f"{path.name} cannot be read: {error.strerror}") from error
    if not isinstance(content, dict):
        raise UnusableCellError(f"{path.name} is not a JSON object")
    return content


def _scalars(content: Mapping[str, Any]) -> dict[str, Any]:
    scalars: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, list | dict):
            continue
        # A scalar may not take the place of a column of the metrics.
        kept = f"cell.{name}" if name in schema.CELL_METRICS else name
        scalars[kept] = _typed(name, value, SCALARS.get(name))
    return scalars


def _typed(name: str, value: Any, dtype: str | None) -> Any:
    if value is None or dtype is None:
        return value
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


def _metrics(columns: Any) -> dict[str, list[Any]]:
    if not isinstance(columns, dict):
        raise UnusableCellError("no metrics")
    missing = [name for name in schema.CELL_METRICS if not isinstance(columns.get(name), list)]
    if missing:
        raise UnusableCellError(f"metrics lack {', '.join(missing)}")
    metrics = {name: _entries(name, columns[name]) for name in schema.CELL_METRICS}
    lengths = {len(column) for column in metrics.values()}
    if lengths == {0}:
        raise UnusableCellError("metrics are empty")
    if len(lengths) > 1:
        raise UnusableCellError("metrics have columns of different length")
    names = zip(*(metrics[k] for k in ("split", "slice_kind", "slice", "metric")), strict=True)
    if len(set(names)) < lengths.pop():
        raise UnusableCellError("metrics hold a row twice")
    return metrics


def _entries(name: str, column: list[Any]) -> list[Any]:
    """Check a whole column by the types that occur in it, each entry only where they do not say."""
    dtype = schema.CELL_METRICS[name]
    found = set(map(type, column))
    if dtype == "string" and found <= {str}:
        return column
    if dtype == "int64" and found == {int} and min(column) >= 0 and max(column) < 2**63:
        return column
    if dtype == "float64" and found <= {float}:
        return column
    if dtype == "float64" and found <= {float, NoneType}:
        return [math.nan if value is None else value for value in column]
    return [_entry(name, dtype, value) for value in column]


def _entry(name: str, dtype: str, value: Any) -> Any:
    if dtype == "string" and isinstance(value, str):
        return value
    if dtype == "int64" and isinstance(value, int) and 0 <= value < 2**63:
        return value
    if dtype == "float64" and value is None:
        return math.nan
    if dtype == "float64" and is_number(value):
        return float(value)
    raise UnusableCellError(f"metrics.{name} holds {value!r}")
