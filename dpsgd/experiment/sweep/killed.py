"""The status of a run whose process had no time to write it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.files import read_json, write_json


def mark_killed(folder: Path, pid: int, stopped_by: str, *, release: bool) -> bool:
    """Say in ``status.json`` that process ``pid`` was ended by ``stopped_by`` while it ran.

    Returns whether that was so: a status that is not RUNNING, or another process's, is left alone.
    """
    status = _running(folder)
    if status is None or status["pid"] != pid:
        return False
    # Imported where a run was killed: a job's own process does without pandas.
    from dpsgd.experiment.allowed import gate_of  # noqa: PLC0415

    killed = status | {"status": "KILLED", "stopped_by": stopped_by}
    write_json(folder / schema.STATUS_FILE, gate_of(release=release).status(killed))
    return True


def running_here(folder: Path) -> int | None:
    """Return the process that a run is said to be RUNNING in on this host, alive or not."""
    status = _running(folder)
    return None if status is None else int(status["pid"])


def _running(folder: Path) -> dict[str, Any] | None:
    status: Any = read_json(folder / schema.STATUS_FILE)
    if not isinstance(status, dict) or status.get("status") != "RUNNING":
        return None
    return status if status.get("host") == socket.gethostname() and "pid" in status else None
