"""Every finished cell below a runs folder as one tidy table."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import schema
from analysis.cell_file import SCALARS, Cell, UnusableCellError, is_number, read_cell, read_status


@dataclass(frozen=True)
class LeftOut:
    """A run folder that is not in the table, and why."""

    folder: str
    reason: str


@dataclass(frozen=True)
class CellTable:
    """``table``: one row per run, split, slice and metric; ``left_out``: the folders not in it."""

    table: pd.DataFrame
    left_out: tuple[LeftOut, ...]


def read_cells(runs: Path, keys: Collection[str] | None = None) -> CellTable:
    """Read ``runs/<run_key>/cell.json`` of every finished cell, or of those that ``keys`` names.

    The table has the columns of ``schema.CELL_METRICS``, then every scalar of the cells; what a
    cell does not state is missing. ``epsilon`` is a float, infinite where there is no privacy.
    Settings (``config.``) are categories, in ``one_row_each`` values.
    Folders without a cell, a status or a config are no cells and are passed over.

    Raises ``FileNotFoundError`` if ``runs`` is not a folder.
    """
    if not runs.is_dir():
        raise FileNotFoundError(f"{runs}: no such folder")
    table, left_out = _Table(), []
    with _no_collection():
        for folder in _run_folders(runs) if keys is None else _named(runs, keys):
            try:
                table.add(_read_folder(folder))
            except UnusableCellError as error:
                left_out.append(LeftOut(folder.name, str(error)))
        return CellTable(table.frame(), tuple(left_out))


def one_row_each(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run with its scalar columns only, in the order of the table."""
    scalars = [name for name in table.columns if name not in schema.CELL_METRICS]
    first = ~table["run_key"].duplicated()
    rows = table.loc[first, scalars].reset_index(drop=True)
    coded = {
        name: column.astype(column.cat.categories.dtype)
        for name, column in rows.items()
        if isinstance(column.dtype, pd.CategoricalDtype)
    }
    return rows.assign(**coded)


def _run_folders(runs: Path) -> Iterator[Path]:
    marks = (schema.CELL_FILE, schema.STATUS_FILE, schema.CONFIG_FILE)
    for folder in sorted(runs.iterdir()):
        hidden = folder.name.startswith(".")
        if not hidden and folder.is_dir() and any((folder / mark).exists() for mark in marks):
            yield folder


def _named(runs: Path, keys: Collection[str]) -> Iterator[Path]:
    for key in sorted(keys):
        yield runs / key


def _read_folder(folder: Path) -> Cell:
    path = folder / schema.CELL_FILE
    if not folder.is_dir():
        raise UnusableCellError("not begun: no such folder")
    if not path.exists():
        status = read_status(folder / schema.STATUS_FILE)
        raise UnusableCellError(f"status {status}, no {schema.CELL_FILE}")
    return read_cell(path)


class _Table:
    """Gathers cells; their metrics become arrays a few hundred cells at a time, to save memory."""

    def __init__(self) -> None:
        self._scalars: list[dict[str, Any]] = []
        self._lengths: list[int] = []
        self._keys: set[str] = set()
        self._waiting: list[dict[str, list[Any]]] = []
        self._parts: dict[str, list[pa.Array]] = {name: [] for name in schema.CELL_METRICS}

    def add(self, cell: Cell) -> None:
        """Take a cell; raises ``UnusableCellError`` if its run key is there already."""
        key = cell.scalars["run_key"]
        if key in self._keys:
            raise UnusableCellError(f"a copy: run key {key} is already in the table")
        self._keys.add(key)
        self._scalars.append(cell.scalars)
        self._lengths.append(len(cell.metrics["value"]))
        self._waiting.append(cell.metrics)
        if len(self._waiting) >= _AT_ONCE:
            self._flush()

    def frame(self) -> pd.DataFrame:
        """Return the table: metrics, then every scalar of the cells."""
        self._flush()
        metrics = {name: _joined(name, parts) for name, parts in self._parts.items()}
        names = list(dict.fromkeys([*SCALARS, *chain.from_iterable(self._scalars)]))
        of_row = np.repeat(np.arange(len(self._scalars)), self._lengths)
        scalars: dict[str, Any] = {}
        for name in names:
            column = _column(name, [scalars.get(name) for scalars in self._scalars])
            # Settings are the same in thousands of rows: a code each takes a tenth of the memory.
            column = pd.Categorical(column) if name.startswith(_CONFIG) else column
            scalars[name] = column.take(of_row)
        return pd.DataFrame({**metrics, **scalars}, copy=False)

    def _flush(self) -> None:
        for name, dtype in schema.CELL_METRICS.items():
            values = list(chain.from_iterable(metrics[name] for metrics in self._waiting))
            kind = _ARROW[dtype]
            # NaN is a value to arrow, and None in no column.
            self._parts[name].append(pa.array(values, type=kind, from_pandas=False))
        self._waiting.clear()


_CONFIG = "config."
_AT_ONCE = 500
_ARROW = {"string": pa.large_string(), "int64": pa.int64(), "float64": pa.float64()}


@contextmanager
def _no_collection() -> Iterator[None]:
    """Read without the garbage collector: millions of small objects, none of them in a cycle."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _joined(name: str, parts: list[pa.Array]) -> Any:
    whole = pa.chunked_array(parts, type=_ARROW[schema.CELL_METRICS[name]])
    if schema.CELL_METRICS[name] == "string":
        return pd.StringDtype().__from_arrow__(whole)
    return whole.to_numpy()


def _column(name: str, values: list[Any]) -> Any:
    dtype = SCALARS.get(name) or _dtype_of(values)
    if dtype == "string":
        values = [None if value is None else str(value) for value in values]
    if dtype == "float64":
        values = [np.nan if value is None else float(value) for value in values]
    return pd.array(values, dtype=dtype)


def _dtype_of(values: Iterable[Any]) -> str:
    """Return a dtype that holds every value; text where numbers and words are mixed."""
    stated = [value for value in values if value is not None]
    if stated and all(isinstance(value, bool) for value in stated):
        return "boolean"
    if stated and all(isinstance(value, int) and is_number(value) for value in stated):
        return "Int64"
    if stated and all(is_number(value) or value in ("inf", "-inf") for value in stated):
        return "float64"
    return "string"
