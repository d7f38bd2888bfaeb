"""What became of every cell of a sweep: from the record of its job, or else from its folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.processes import is_running
from dpsgd.experiment.record import finished
from dpsgd.experiment.sweep.ended import (
    FAILED,
    FINISHED,
    KILLED,
    STOPPED,
    Ended,
    not_run,
    read_ended,
)
from dpsgd.experiment.sweep.halt import Halt
from dpsgd.experiment.sweep.killed import mark_killed, running_here
from dpsgd.experiment.sweep.planned import PlannedCell
from dpsgd.experiment.sweep.states import ASKED

PATIENCE = 30.0
"""Seconds that cells whose worker died may take to end in order."""


def without_record(cells: Sequence[PlannedCell], sweep: Path) -> list[PlannedCell]:
    """Return the cells that are neither finished nor recorded by their job: whoever ran that
    was ended. Waits until nothing of them runs on this host any more.
    """
    lost = [c for c in cells if not read_ended(sweep, c.run_key) and finished(c.folder) is None]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and any(_runs(cell) for cell in lost):
        time.sleep(0.2)
    return [cell for cell in lost if finished(cell.folder) is None]


def outcome(cell: PlannedCell, sweep: Path, why: str) -> Ended:
    """Return what became of a cell; ``why`` says why its job may have left no record."""
    ended = read_ended(sweep, cell.run_key)
    if ended is not None:
        return ended
    if finished(cell.folder) is not None:
        return Ended(cell.run_key, FINISHED, "", "", None, False)
    pid = running_here(cell.folder)
    if pid is None and Halt(sweep).began_before(cell.folder / schema.STATUS_FILE):
        return _left(cell)
    if pid is None or is_running(pid):
        return not_run(why)
    mark_killed(cell.folder, pid, "SIGKILL", release=bool(cell.config.get("release")))
    return Ended(cell.run_key, KILLED, "its worker was killed", "", None, False)


def _left(cell: PlannedCell) -> Ended:
    """Return what the folder says of a cell whose job was left before it could keep a record."""
    status = read_json(cell.folder / schema.STATUS_FILE) or {}
    by = str(status.get("stopped_by"))
    error = STOPPED if by in ASKED else by
    return Ended(cell.run_key, str(status.get("status", FAILED)), error, "", None, False)


def _runs(cell: PlannedCell) -> bool:
    pid = running_here(cell.folder)
    return pid is not None and is_running(pid)
