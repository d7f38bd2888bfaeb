"""Every finished cell below a runs folder as one tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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


def read_cells(runs: Path) -> CellTable:
    """Read ``runs/<run_key>/cell.json`` of every finished cell.

    The table has the columns of ``schema.CELL_METRICS``, then every scalar of the cells; what a
    cell does not state is missing. ``epsilon`` is a float, infinite where there is no privacy.
    Folders without a cell, a status or a config are no cells and are passed over.

    Raises ``FileNotFoundError`` if ``runs`` is not a folder.
    """
    if not runs.is_dir():
        raise FileNotFoundError(f"{runs}: no such folder")
    cells: dict[str, Cell] = {}
    left_out: list[LeftOut] = []
    for folder in _run_folders(runs):
        try:
            cell = _read_folder(folder)
            key = cell.scalars["run_key"]
            if key in cells:
                raise UnusableCellError(f"a copy: run key {key} is already in the table")
            cells[key] = cell
        except UnusableCellError as error:
            left_out.append(LeftOut(folder.name, str(error)))
    return CellTable(_table(list(cells.values())), tuple(left_out))


def one_row_each(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run with its scalar columns only, in the order of the table."""
    scalars = [name for name in table.columns if name not in schema.CELL_METRICS]
    first = ~table["run_key"].duplicated()
    return table.loc[first, scalars].reset_index(drop=True)


def _run_folders(runs: Path) -> Iterator[Path]:
    marks = (schema.CELL_FILE, schema.STATUS_FILE, schema.CONFIG_FILE)
    for folder in sorted(runs.iterdir()):
        hidden = folder.name.startswith(".")
        if not hidden and folder.is_dir() and any((folder / mark).exists() for mark in marks):
            yield folder


def _read_folder(folder: Path) -> Cell:
    path = folder / schema.CELL_FILE
    if not path.exists():
        status = read_status(folder / schema.STATUS_FILE)
        raise UnusableCellError(f"status {status}, no {schema.CELL_FILE}")
    return read_cell(path)


def _table(cells: list[Cell]) -> pd.DataFrame:
    lengths = [len(cell.metrics["value"]) for cell in cells]
    metrics = {
        name: pd.array(list(chain.from_iterable(cell.metrics[name] for cell in cells)), dtype=dtype)
        for name, dtype in schema.CELL_METRICS.items()
    }
    others = chain.from_iterable(cell.scalars for cell in cells)
    names = list(dict.fromkeys([*SCALARS, *others]))
    cell_of_row = np.repeat(np.arange(len(cells)), lengths)
    scalars = {
        name: _column(name, [cell.scalars.get(name) for cell in cells]).take(cell_of_row)
        for name in names
    }
    return pd.DataFrame({**metrics, **scalars})


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
