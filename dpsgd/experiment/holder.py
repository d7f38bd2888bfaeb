"""Who has a run: a process, named so that it can be told whether it still lives."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.clock import now
from dpsgd.experiment.files import read_json
from dpsgd.experiment.processes import is_running, kernel, ticks_of, visible

CLAIMS = ".claims"
"""The folder below a runs folder that says which process has which run; empty while none has."""

SILENT = 300.0
"""Seconds without a sign of life after which a process that cannot be looked at counts as gone."""


@dataclass(frozen=True)
class Holder:
    """A process that has, or had, a run. ``token`` is this claim's own.

    ``kernel`` and ``visible`` say among which processes ``pid`` is one, ``ticks`` when it started,
    since a pid is given again. Empty: not known.
    """

    token: str
    pid: int
    host: str
    since: str
    kernel: str
    visible: str
    ticks: str

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process of this machine since that was started."""
        return self.kernel == kernel() if self.kernel else self.host == socket.gethostname()

    @property
    def can_be_looked_up(self) -> bool:
        """Whether it can be told from any other process that this one can see."""
        return self.is_here and self.ticks != "" and self.visible == visible()

    def lives(self, silence: float) -> bool:
        """Whether it still lives: looked up if it is one of ours, and elsewhere by its ``silence``,
        the seconds since its last sign of life.
        """
        if self.is_here and self.visible in ("", visible()):
            return is_running(self.pid, self.ticks)
        return silence < SILENT


def this_process() -> Holder:
    """Return a new claim of this process."""
    pid, host = os.getpid(), socket.gethostname()
    return Holder(secrets.token_hex(8), pid, host, now(), kernel(), visible(), ticks_of(pid))


def claim_file(folder: Path) -> Path:
    """Return where it is written who has the run of ``folder``."""
    return folder.parent / CLAIMS / f"{folder.name}.json"


def text_of(holder: Holder) -> str:
    """Return a holder as JSON."""
    return json.dumps(dataclasses.asdict(holder)) + "\n"


def read_holder(file: Path) -> Holder | None:
    """Return the holder in ``file``, None if it is not there or torn."""
    stored: Any = read_json(file)
    try:
        return Holder(**stored)
    except TypeError:
        return None


def silence_of(file: Path, now: float | None = None) -> float:
    """Return the seconds since ``file`` was touched, infinite if it is not there.

    ``now`` is what the file system of ``file`` calls now, if that is known: clocks differ.
    """
    try:
        touched = file.stat().st_mtime
    except OSError:
        return float("inf")
    return (time.time() if now is None else now) - touched


def stated(folder: Path) -> tuple[Holder, float] | None:
    """Return the process that ``status.json`` calls RUNNING, and its silence in seconds.

    A claim says more; this is what is left where there is none.
    """
    return _running(_status(folder), folder)


def state_of(folder: Path) -> str:
    """Return the status of a run folder as it is: KILLED where ``status.json`` still says RUNNING
    of a process that is gone, ``unknown`` where it says nothing.
    """
    said = _status(folder)
    if said.get("status") == "RUNNING":
        file = claim_file(folder)
        holder = read_holder(file)
        if holder is not None:
            return "RUNNING" if holder.lives(silence_of(file)) else "KILLED"
        said = _status(folder)  # again: whoever let it go has just finished
        found = _running(said, folder)
        if found is not None:
            return "RUNNING" if found[0].lives(found[1]) else "KILLED"
    return str(said.get("status", "unknown"))


def _running(status: dict[str, Any], folder: Path) -> tuple[Holder, float] | None:
    if status.get("status") != "RUNNING":
        return None
    pid, since = status.get("pid"), str(status.get("started_at"))
    holder = Holder(
        "", pid if isinstance(pid, int) else 0, str(status.get("host")), since, "", "", ""
    )
    return holder, _silence(str(status.get("heartbeat")), folder / schema.STATUS_FILE)


def _silence(heartbeat: str, file: Path) -> float:
    """Return the seconds since a heartbeat; of a released run it states the day alone."""
    try:
        beat = datetime.datetime.fromisoformat(heartbeat)
        return (datetime.datetime.now(datetime.UTC) - beat).total_seconds()
    except (TypeError, ValueError):  # no time, or one without its zone
        return silence_of(file)


def _status(folder: Path) -> dict[str, Any]:
    status: Any = read_json(folder / schema.STATUS_FILE)
    return status if isinstance(status, dict) else {}
