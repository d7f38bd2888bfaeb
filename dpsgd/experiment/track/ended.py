"""How a run folder's run ended, as far as its files say."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.processes import is_running

SILENT_SECONDS = 300.0
"""A run on another host that said nothing for so long is taken for dead."""


Ends = dict[str, tuple[str, dict[str, Any]]]


def ends_of(runs: Path, keys: Iterable[str]) -> Ends:
    """Return how runs ended, by run key, in this order; those that have not are left out."""
    return {key: found for key in keys if (found := ended(runs / key)) is not None}


def ended(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """Return how the run ended (FINISHED, FAILED or KILLED) with its ``status.json``, or None if it
    runs or never began.

    A run that says RUNNING was KILLED if its process is not there any more, or is on another host
    and has been silent for long.
    """
    status = read_json(folder / schema.STATUS_FILE)
    if not isinstance(status, dict) or status.get("status") not in schema.STATUSES:
        return None
    if status["status"] != "RUNNING":
        return status["status"], status
    return ("KILLED", status) if _dead(status) else None


def _dead(status: Mapping[str, Any]) -> bool:
    if status.get("host") != socket.gethostname():
        return _silent_for(str(status.get("heartbeat", ""))) > SILENT_SECONDS
    pid = status.get("pid")
    return not isinstance(pid, int) or not is_running(pid)


def _silent_for(heartbeat: str) -> float:
    try:
        last = datetime.datetime.fromisoformat(heartbeat)
    except ValueError:
        return 0.0
    if "T" not in heartbeat:  # a released run tells the day only
        last = last.replace(tzinfo=datetime.UTC) + datetime.timedelta(days=1)
    return (datetime.datetime.now(datetime.UTC) - last).total_seconds()
