"""How a sweep tells its jobs, wherever they run, to start no new cell or to end: by a file."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from dpsgd.experiment.files import read_json, write_json

NO_MORE = "no more"
"""Cells that run may finish; no other begins."""
NOW = "now"
"""Cells that run are ended in order, with their state kept; no other begins."""


@dataclass(frozen=True)
class Halt:
    """The files of one sweep in ``folder`` by which its jobs learn what is wished of them.

    A file is what every launcher's workers share; a signal reaches those of one machine only.
    """

    folder: Path

    def own(self) -> None:
        """Say that this process leads the sweep."""
        write_json(self.folder / "leader.json", _this_process())

    @property
    def led_elsewhere(self) -> bool:
        """Whether another process than this one leads the sweep."""
        leader = read_json(self.folder / "leader.json")
        return leader is not None and leader != _this_process()

    @property
    def led_by(self) -> int | None:
        """The process on this host that leads the sweep; None if that is on another."""
        leader = read_json(self.folder / "leader.json") or {}
        return leader["pid"] if leader.get("host") == socket.gethostname() else None

    def began_before(self, file: Path) -> bool:
        """Whether ``file`` was written since the sweep began; not, if it is not there."""
        try:
            return file.stat().st_mtime_ns >= (self.folder / "leader.json").stat().st_mtime_ns
        except OSError:
            return False

    def ask(self, what: str) -> None:
        """Ask for ``NO_MORE`` or ``NOW``. What was asked before is never weakened."""
        if self.asked() != NOW:
            write_json(self._file, what)

    def asked(self) -> str | None:
        """Return what was asked for, or None."""
        return read_json(self._file)

    @property
    def _file(self) -> Path:
        return self.folder / "halt.json"


def _this_process() -> dict[str, object]:
    return {"pid": os.getpid(), "host": socket.gethostname()}
