"""The two latest checkpoints of a run, on disk: private, and gone when it is finished."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsgd.experiment.files import write_whole
from dpsgd.experiment.resume.packed import packed, unpacked

NEWEST, BEFORE = "checkpoint.pt", "checkpoint.before.pt"
CHECKPOINT_FILES = (NEWEST, BEFORE)
"""Everything that a resume needs, raw: they must not leave the folder, nor outlive the run."""

_NEXT = "checkpoint.next.pt"


class Generations:
    """``checkpoint.pt`` and the one before it, readable by their owner alone (0600).

    Whatever moment a process or a machine ends at, one that was whole stays whole: a new one is on
    the disk before the newest takes the place of the one before, and a torn one never does.
    """

    def __init__(self, folder: Path) -> None:
        self._newest, self._before = folder / NEWEST, folder / BEFORE
        self._next = folder / _NEXT
        self._whole = False

    def read(self) -> list[dict[str, Any]]:
        """Return the contents that are whole, the newest first."""
        found = [_content(file) for file in (self._next, self._newest, self._before)]
        self._whole = found[1] is not None
        return [content for content in found if content is not None]

    def write(self, content: Mapping[str, Any]) -> None:
        """Keep ``content`` as the newest; TypeError for what is no plain data."""
        data = packed(content)
        write_whole(self._next, lambda path: _write(path, data))
        if self._whole:
            self._newest.replace(self._before)
        self._next.replace(self._newest)
        self._whole = True

    def discard(self) -> None:
        """Remove all of them, those that a killed process left half written among them."""
        torn = self._newest.parent.glob(f".{_NEXT}.*.tmp")
        for file in (self._newest, self._before, self._next, *torn):
            file.unlink(missing_ok=True)
        self._whole = False


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def _content(file: Path) -> dict[str, Any] | None:
    try:
        return unpacked(file.read_bytes())
    except FileNotFoundError:
        return None
