"""What is known to be in a store, kept beside the runs: to ask a store of thousands takes long."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIELDS = {"key": str, "status": str, "tags": list}


@dataclass(frozen=True)
class Known:
    """How a run ended that is in the store, and the names of its copy's tags."""

    status: str
    tags: frozenset[str]


class Memory:
    """A file of one store, only ever appended to. Whoever deletes it loses time and nothing else.

    ``store`` tells stores apart, one that was made anew included.
    """

    def __init__(self, folder: Path, store: Iterable[object]) -> None:
        name = hashlib.sha256(repr(tuple(store)).encode()).hexdigest()[:12]
        self._file = folder / f"mlflow-{name}.jsonl"

    def read(self) -> dict[str, Known]:
        """Return what is known, by run key; a torn line is as if it were not there."""
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        found: dict[str, Known] = {}
        for line in lines:
            row = _row(line)
            if row is not None:
                found[row["key"]] = Known(row["status"], frozenset(row["tags"]))
        return found

    def add(self, run_key: str, status: str, tags: Iterable[str]) -> None:
        """Remember a run; in a folder that cannot be written to nothing is remembered."""
        line = json.dumps({"key": run_key, "status": status, "tags": sorted(tags)}) + "\n"
        with contextlib.suppress(OSError):
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(handle, line.encode())  # one write: lines of two processes do not mix
            finally:
                os.close(handle)


def _row(line: str) -> Mapping[str, Any] | None:
    with contextlib.suppress(json.JSONDecodeError):
        row = json.loads(line)
        if isinstance(row, dict) and all(isinstance(row.get(k), t) for k, t in _FIELDS.items()):
            return row
    return None
