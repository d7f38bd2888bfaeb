"""One read of a CSV or Parquet file: columns by name, nothing interpreted yet."""

from __future__ import annotations

import csv
import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpsgd.errors import ConfigError, did_you_mean

PARQUET = (".parquet", ".pq")
SHOWN = 40
"""So many column names are listed in an error."""


@dataclass(frozen=True)
class Frame:
    """The table of one file; ``source`` names it in errors. Rows count from 1, header aside."""

    source: str
    table: pd.DataFrame

    def require(self, key: str, column: str) -> None:
        """Raise ConfigError naming ``key``, the column and those there are, if there is none."""
        found = list(map(str, self.table.columns))
        if column not in found:
            listed = ", ".join(found[:SHOWN])
            listed += f", … ({len(found)} in all)" if len(found) > SHOWN else ""
            why = f"{self.source} has no such column{did_you_mean(column, found)}"
            raise ConfigError(key, column, f"{why}; it has {listed}")


def read_frame(
    path: str, key: str, names: Sequence[str] | None, separator: str
) -> tuple[Frame, tuple[str, ...]]:
    """Read ``path`` and return it with notes on what was left out.

    ``.parquet`` and ``.pq`` keep their types; anything else is read as CSV (``.gz`` too), all of
    it text. ``names`` are the columns of a CSV without a header. A column named twice is kept once
    if its copies are equal. Raises ConfigError with ``key``.
    """
    if path == "???":
        raise ConfigError(key, path, "is required: the path of a CSV or Parquet file")
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(key, path, "no such file; give the path of a CSV or Parquet file")
    if file.suffix.lower() in PARQUET:
        if names is not None:
            raise ConfigError("data.names", None, f"{file.name} has names of its own; give null")
        table = _read_parquet(file, key)
    else:
        table = _read_csv(file, key, names, separator)
    frame, notes = _without_copies(table, key, file.name)
    if not len(frame.table):
        raise ConfigError(key, path, "has no record")
    return frame, notes


def frame_of_arrow(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas one, in which integers with gaps stay integers."""
    whole = {
        pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(), pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(),
    }  # fmt: skip
    # An index that pandas once stored would come back as index, not as the column that it is.
    return table.replace_schema_metadata(None).to_pandas(types_mapper=whole.get)


def _read_parquet(file: Path, key: str) -> pd.DataFrame:
    try:
        return frame_of_arrow(pq.ParquetFile(file).read())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(key, file, f"cannot be read as Parquet: {error}") from error


def _read_csv(file: Path, key: str, names: Sequence[str] | None, separator: str) -> pd.DataFrame:
    with _readable(file, key):
        head = _head(file, separator)
        if not head:
            raise ConfigError(key, file, "is empty")
        header = list(names) if names is not None else [name.strip() for name in head[0][1]]
        first = head[0] if names is not None else head[1] if len(head) > 1 else None
        if first is None:
            raise ConfigError(key, file, "has a header and no record")
        # pandas takes the first record's width on trust.
        _check_width(file, key, first, header, separator)
        table: pd.DataFrame = pd.read_csv(
            file, sep=separator, header=None, skiprows=0 if names is not None else head[0][0],
            names=range(len(header)), index_col=False, dtype=str, na_filter=False,
            skipinitialspace=True, encoding="utf-8-sig",
        )  # fmt: skip
        if "" in table[len(header) - 1].array:
            # Only such a record can have had too few fields: pandas fills them up in silence.
            for line in _records(file, separator):
                _check_width(file, key, line, header, separator)
    return table.set_axis(pd.Index(header, dtype=object), axis=1)


@contextmanager
def _readable(file: Path, key: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except UnicodeDecodeError as error:
        raise ConfigError(key, file, f"is not UTF-8 text: {error}") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        why = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        hint = "data.separator says what stands between fields; quotes hold a field that has it"
        raise ConfigError(key, file, f"cannot be read as CSV: {why}", hint) from error
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ConfigError(key, file, f"cannot be read as CSV: {error}") from error


def _open(file: Path) -> TextIO:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _records(file: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the record's last line, its fields); blank lines are none."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        with _open(file) as text:
            reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
    finally:
        csv.field_size_limit(limit)


def _head(file: Path, separator: str) -> list[tuple[int, list[str]]]:
    records = _records(file, separator)
    return [record for _, record in zip(range(2), records, strict=False)]


def _check_width(
    file: Path, key: str, record: tuple[int, list[str]], header: list[str], separator: str
) -> None:
    line, fields = record
    if len(fields) != len(header):
        why = f"line {line} has {len(fields)} fields where {len(header)} columns are named"
        hint = f"fields are separated by {separator!r} (data.separator); columns: {header[:SHOWN]}"
        raise ConfigError(key, file, why, hint)


def _without_copies(table: pd.DataFrame, key: str, source: str) -> tuple[Frame, tuple[str, ...]]:
    names = [str(name) for name in table.columns]
    notes: list[str] = []
    for name in dict.fromkeys(names):
        places = [i for i, other in enumerate(names) if other == name]
        first = table.iloc[:, places[0]]
        if any(not first.equals(table.iloc[:, place]) for place in places[1:]):
            why = f"{source} has {len(places)} different columns of this name; rename them there"
            raise ConfigError(key, name or "''", why)
        if len(places) > 1:
            notes.append(f"{source} has column {name} {len(places)} times with equal values")
    kept = table.loc[:, ~pd.Index(names).duplicated()]
    return Frame(source, kept.set_axis(list(dict.fromkeys(names)), axis=1)), tuple(notes)
