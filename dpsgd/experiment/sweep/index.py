"""Which cells of a runs folder are finished, without opening every one of their folders."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.sweep.rows import (
    FINISHED,
    IndexRow,
    begun_row,
    line_of,
    read_row,
    row_of,
)

RUN_KEY = re.compile(r"[0-9a-f]{16}")


class Index:
    """The index of a runs folder: a line of JSON for each cell that began or finished.

    The last line of a key counts. Lines are only ever added, each with one write, so that processes
    can share the file; a line that is torn, or was never written, costs one look into its folder.
    An object remembers what it read, and reads only what was added since.
    """

    def __init__(self, runs: Path) -> None:
        self._runs, self._file = runs, runs / schema.INDEX_FILE
        self._rows: dict[str, IndexRow] = {}
        self._place = _Place(None, 0, another=False)

    def finished(self) -> dict[str, IndexRow]:
        """Return the finished cells by run key, of every version of the code.

        What holds is the runs folder, which is listed once: a key without a folder is left out, and
        a folder whose key is not known as finished is opened, and remembered if it is. A runs
        folder that is not there has none; one that cannot be written to is read all the same.
        """
        present = run_keys(self._runs)
        self.since()
        unknown = [key for key in present if not self._is_finished(key)]
        found = [row for key in unknown if (row := _looked_up(self._runs / key)) is not None]
        self._append(found)
        self._rows |= {row.run_key: row for row in found}
        return {key: self._rows[key] for key in present if self._is_finished(key)}

    def labels(self) -> dict[str, str]:
        """Return what each cell that began is called, finished or not, as far as it was read."""
        return {key: row.label for key, row in self._rows.items()}

    def since(self) -> list[IndexRow]:
        """Return the rows that were added since this object last read the file, in their order.

        Cheap enough to ask again and again; nothing is compared with the folders.
        """
        rows, self._place = _read_from(self._file, self._place)
        if self._place.another:
            self._rows = {}
        self._rows |= {row.run_key: row for row in rows}
        return rows

    def begin(self, folder: Path, label: str) -> None:
        """Add that a cell begins to train, as its ``status.json`` says. A disk that is full or
        read-only is done without, as by :meth:`finish`: the folder says the same.
        """
        started = (read_json(folder / schema.STATUS_FILE) or {}).get("started_at")
        self._append([begun_row(folder.name, label, started)])

    def finish(self, folder: Path) -> None:
        """Add a finished cell as its folder has it; nothing for one that is not finished."""
        row = _looked_up(folder)
        self._append([] if row is None else [row])

    def _is_finished(self, key: str) -> bool:
        row = self._rows.get(key)
        return row is not None and row.status == FINISHED

    def _append(self, rows: Iterable[IndexRow]) -> None:
        lines = [line_of(row) for row in rows]
        if not lines:
            return
        with contextlib.suppress(OSError):
            _write_lines(self._file, lines)


def run_keys(runs: Path) -> list[str]:
    """Return the run keys that have a folder below ``runs``, sorted, by one listing."""
    try:
        names = os.listdir(runs)  # a Path for each of 10,000 would cost more than the listing
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if RUN_KEY.fullmatch(name))


def older(rows: Mapping[str, IndexRow], result_version: object) -> int:
    """Return how many cells another version of the code made, whose results may differ.

    They have keys of their own, so that they are listed and drawn and never taken for cells of this
    version.
    """
    return sum(row.result_version != str(result_version) for row in rows.values())


def older_line(rows: Mapping[str, IndexRow], result_version: object) -> str | None:
    """Return one line on cells of another version of the code, None if there are none."""
    count = older(rows, result_version)
    if not count:
        return None
    runs, are = ("run", "is") if count == 1 else ("runs", "are")
    return (
        f"{count} {runs} here {are} of another version of the code: kept, listed and drawn, "
        "never taken for the same run"
    )


@dataclass(frozen=True)
class _Place:
    """How far a file was read: which file it was, and the bytes.

    ``another``: it is not the file of before, or was cut, and what that said may not hold.
    """

    file: tuple[int, int] | None
    offset: int
    another: bool


def _read_from(file: Path, place: _Place) -> tuple[list[IndexRow], _Place]:
    """Return the rows of the whole lines behind ``place``, and the new place."""
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            now = (found.st_dev, found.st_ino)
            same = place.file == now and found.st_size >= place.offset
            start = place.offset if same else 0
            opened.seek(start)
            read = opened.read()
    except OSError:
        return [], _Place(None, 0, another=place.file is not None)
    whole = read.rfind(b"\n") + 1  # what follows is torn, or not yet written
    rows = [row for line in read[:whole].splitlines() if (row := row_of(line)) is not None]
    return rows, _Place(now, start + whole, another=not same)


def _write_lines(file: Path, lines: Iterable[bytes]) -> None:
    """Add whole lines, each with one write, so that lines of other processes stay whole.

    A line that another process is about to write looks torn, if half of it is in view; it costs an
    empty line, which readers pass over.
    """
    handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            os.write(handle, b"\n")  # the line of a full disk, or of a process that was killed
        for line in lines:
            os.write(handle, line)
    finally:
        os.close(handle)


def _looked_up(folder: Path) -> IndexRow | None:
    try:
        row = read_row(folder)
    except OSError:
        return None
    # A copy under another name is no answer to that key.
    return row if row is not None and row.run_key == folder.name else None
