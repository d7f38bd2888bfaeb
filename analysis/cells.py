"""Every finished cell below a runs folder as one tidy table."""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import schema
from analysis.cell_file import SCALARS, Cell, read_cell, read_status
from analysis.cell_metrics import (
    Metrics,
    MetricsReader,
    UnusableCellError,
    columns_of,
    is_number,
)


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
    table, metrics, left_out = _Table(), MetricsReader(), []
    with _no_collection():
        for folder in _run_folders(runs) if keys is None else _named(runs, keys):
            try:
                table.add(_read_folder(folder, metrics))
            except UnusableCellError as error:
                left_out.append(LeftOut(folder.name, str(error)))
        return CellTable(table.frame(), tuple(left_out))


def has_cells(runs: Path) -> bool:
    """Say whether there is any run folder, finished or not."""
    return runs.is_dir() and next(_run_folders(runs), None) is not None


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
    with os.scandir(runs) as entries:
        names = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())
    for name in names:
        folder = runs / name
        if any((folder / mark).exists() for mark in marks):
            yield folder


def _named(runs: Path, keys: Collection[str]) -> Iterator[Path]:
    for key in sorted(keys):
        yield runs / key


def _read_folder(folder: Path, metrics: MetricsReader) -> Cell:
    path = folder / schema.CELL_FILE
    if not folder.is_dir():
        raise UnusableCellError("not begun: no such folder")
    if not path.exists():
        status = read_status(folder / schema.STATUS_FILE)
        raise UnusableCellError(f"status {status}, no {schema.CELL_FILE}")
    return read_cell(path, metrics)


class _Table:
    """Gathers cells, and makes a table of them."""

    def __init__(self) -> None:
        self._scalars: list[dict[str, Any]] = []
        self._metrics: list[Metrics] = []
        self._keys: set[str] = set()

    def add(self, cell: Cell) -> None:
        """Take a cell; raises ``UnusableCellError`` if its run key is there already."""
        key = cell.scalars["run_key"]
        if key in self._keys:
            raise UnusableCellError(f"a copy: run key {key} is already in the table")
        self._keys.add(key)
        self._scalars.append(cell.scalars)
        self._metrics.append(cell.metrics)

    def frame(self) -> pd.DataFrame:
        """Return the table: metrics, then every scalar of the cells."""
        every: dict[str, Any] = dict.fromkeys([*SCALARS, *chain.from_iterable(self._scalars)])
        stated = [(every | scalars).values() for scalars in self._scalars]
        columns = zip(*stated, strict=True) if stated else [()] * len(every)
        lengths = [len(metrics.count) for metrics in self._metrics]
        of_row = np.repeat(np.arange(len(self._scalars)), lengths)
        scalars: dict[str, Any] = {}
        for name, values in zip(every, columns, strict=True):
            column = _column(name, values)
            # Settings are the same in thousands of rows: a code each takes a tenth of the memory.
            column = pd.Categorical(column) if name.startswith(_CONFIG) else column
            scalars[name] = column.take(of_row)
        return pd.DataFrame({**columns_of(self._metrics), **scalars}, copy=False)


_CONFIG = "config."


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


def _column(name: str, values: Sequence[Any]) -> Any:
    dtype = SCALARS.get(name) or _dtype_of(values)
    if dtype == "string":
        values = [None if value is None else str(value) for value in values]
    if dtype == "float64":
        values = [np.nan if value is None else float(value) for value in values]
    return pd.array(values, dtype=dtype)


def _dtype_of(values: Iterable[Any]) -> str:
    """Return a dtype that holds every value; text where numbers and words are mixed."""
    stated = [value for value in values if value is not None]
    found = set(map(type, stated))
    if found == {bool}:
        return "boolean"
    if found == {int} and all(map(is_number, stated)):
        return "Int64"
    if found and all(is_number(value) or value in ("inf", "-inf") for value in stated):
        return "float64"
    return "string"
