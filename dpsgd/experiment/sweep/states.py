"""What has become of the cells of a sweep that runs, read from their folders as it goes."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.terminated import Terminated

FINISHED, RUNNING = "FINISHED", "RUNNING"
ASKED = (Terminated.stopped_by, KeyboardInterrupt.__name__)
"""What a run is stopped by that nothing went wrong with."""


@dataclass(frozen=True)
class States:
    """How many cells are finished, at work, failed, and ended by who asked them to."""

    finished: int
    running: int
    failed: int
    ended: int


class Following:
    """The states of cells from now on. What their folders said before does not count.

    A look lists the runs folder once and reads the status of cells that have begun and not ended.
    """

    def __init__(self, runs: Path, keys: Collection[str]) -> None:
        self._runs, self._waiting = runs, set(keys)
        self._before = {key: _attempt(self._status(key)) for key in self._begun()}
        self._finished, self._failed, self._ended = 0, set[str](), set[str]()

    def look(self) -> States:
        """Return the states now; a cell that failed and was begun again is at work."""
        running = 0
        for key in self._begun():
            status = self._status(key)
            if status is None or _attempt(status) == self._before.get(key):
                continue
            state = status.get("status")
            if state == FINISHED:
                self._finished += 1
                self._waiting.discard(key)
            running += state == RUNNING
            over = state not in (FINISHED, RUNNING)
            asked = over and status.get("stopped_by") in ASKED
            (self._failed.add if over and not asked else self._failed.discard)(key)
            (self._ended.add if asked else self._ended.discard)(key)
        return States(self._finished, running, len(self._failed), len(self._ended))

    def _begun(self) -> set[str]:
        try:
            return self._waiting.intersection(os.listdir(self._runs))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def _status(self, key: str) -> dict[str, Any] | None:
        try:
            status = read_json(self._runs / key / schema.STATUS_FILE)
        except OSError:
            return None
        return status if isinstance(status, dict) else None


def _attempt(status: dict[str, Any] | None) -> tuple[Any, ...]:
    """Return what differs between two attempts at a cell, and between two states of one."""
    if status is None:
        return ()
    return tuple(status.get(key) for key in ("attempts", "started_at", "pid", "status"))
