"""The metrics of cells as arrays. Most cells of a sweep have the same rows, which are kept once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import schema

NAMES = tuple(name for name, dtype in schema.CELL_METRICS.items() if dtype == "string")
NUMBERS = tuple(name for name, dtype in schema.CELL_METRICS.items() if dtype == "float64")
COUNT = "n"

_ROW = ("split", "slice_kind", "slice", "metric")
_KNOWN = 8


class UnusableCellError(ValueError):
    """A folder that cannot be a point of the atlas; the text is the reason, in a few words."""


@dataclass(frozen=True)
class RowNames:
    """The columns of ``NAMES``, as lists and as arrays of Arrow, equally long; no row twice."""

    columns: tuple[list[str], ...]
    arrays: tuple[pa.Array, ...]


@dataclass(frozen=True)
class Metrics:
    """``count``: n of every row; ``numbers``: those of ``NUMBERS``, ``[3, rows]``, NaN for none."""

    names: RowNames
    count: np.ndarray
    numbers: np.ndarray


class MetricsReader:
    """Turns the ``metrics`` of cells into arrays; remembers the names of rows that it met last."""

    def __init__(self) -> None:
        self._known: list[RowNames] = []

    def __call__(self, columns: Any) -> Metrics:
        """Check and convert. Raises ``UnusableCellError``: incomplete, or of a wrong type."""
        if not isinstance(columns, dict):
            raise UnusableCellError("no metrics")
        missing = [name for name in schema.CELL_METRICS if not isinstance(columns.get(name), list)]
        if missing:
            raise UnusableCellError(f"metrics lack {', '.join(missing)}")
        names = self._names(columns)
        checked = {name: _entries(name, columns[name]) for name in (*NUMBERS, COUNT)}
        lengths = {len(names.columns[0]), *map(len, checked.values())}
        if lengths == {0}:
            raise UnusableCellError("metrics are empty")
        if len(lengths) > 1:
            raise UnusableCellError("metrics have columns of different length")
        numbers = np.array([checked[name] for name in NUMBERS], dtype=np.float64)
        return Metrics(names, np.array(checked[COUNT], dtype=np.int64), numbers)

    def _names(self, columns: dict[str, list[Any]]) -> RowNames:
        found = tuple(columns[name] for name in NAMES)
        for known in self._known:
            if known.columns == found:
                return known
        names = _checked(found)
        self._known = [names, *self._known[: _KNOWN - 1]]
        return names


def columns_of(metrics: Sequence[Metrics]) -> dict[str, Any]:
    """Return the columns of ``schema.CELL_METRICS`` of all cells below one another, for pandas."""
    texts = {
        name: _joined([own.names.arrays[k] for own in metrics]) for k, name in enumerate(NAMES)
    }
    numbers = np.concatenate([np.empty((3, 0)), *(own.numbers for own in metrics)], axis=1)
    counts = np.concatenate([np.empty(0, np.int64), *(own.count for own in metrics)])
    found = texts | dict(zip(NUMBERS, numbers, strict=True)) | {COUNT: counts}
    return {name: found[name] for name in schema.CELL_METRICS}


def _joined(parts: list[pa.Array]) -> Any:
    whole = pa.chunked_array(parts, type=pa.large_string()).combine_chunks()
    return pd.StringDtype().__from_arrow__(whole)


def _checked(columns: tuple[list[Any], ...]) -> RowNames:
    columns = tuple(_entries(name, own) for name, own in zip(NAMES, columns, strict=True))
    if len(set(map(len, columns))) > 1:
        raise UnusableCellError("metrics have columns of different length")
    rows = set(zip(*(columns[NAMES.index(name)] for name in _ROW), strict=True))
    if len(rows) < len(columns[0]):
        raise UnusableCellError("metrics hold a row twice")
    return RowNames(columns, tuple(_text(column) for column in columns))


def _text(column: Sequence[str]) -> pa.Array:
    try:
        return pa.array(column, type=pa.large_string())
    except UnicodeEncodeError as error:
        raise UnusableCellError("metrics hold a name that is no Unicode") from error


def is_number(value: Any) -> bool:
    """Say whether a JSON value is a number that a 64-bit column can hold."""
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _entries(name: str, column: list[Any]) -> list[Any]:
    """Check a whole column by the types that occur in it, each entry only where they do not say."""
    dtype = schema.CELL_METRICS[name]
    found = set(map(type, column))
    if dtype == "string" and found <= {str}:
        return column
    if dtype == "int64" and found == {int} and min(column) >= 0 and max(column) < 2**63:
        return column
    if dtype == "float64" and found <= {float, NoneType}:
        return column
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
