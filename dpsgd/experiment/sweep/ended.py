"""What became of one cell of a sweep: the small record that its job leaves and returns."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsgd.experiment.files import read_json, write_json

FINISHED, FAILED, KILLED, NOT_RUN = "FINISHED", "FAILED", "KILLED", "NOT_RUN"
STOPPED = "ended with the sweep"
"""What is said of a cell that was running when its sweep was ended."""
ELSEWHERE = "ELSEWHERE"
"""Another process has the cell."""


@dataclass(frozen=True)
class Ended:
    """How a cell's job ended.

    ``run_key`` is None if the cell failed before it was known. ``error`` says what happened in one
    line, empty if finished; ``line`` is what to print of it. ``log`` is where its output is, None
    where the job had no time to say. ``repeated``: it was finished before.
    """

    run_key: str | None
    status: str
    error: str
    line: str
    log: str | None
    repeated: bool

    @property
    def finished(self) -> bool:
        """Whether the cell's folder holds a finished run."""
        return self.status == FINISHED

    @property
    def stopped(self) -> bool:
        """Whether nothing went wrong: its sweep was ended before it, or under it."""
        return self.status == NOT_RUN or self.error == STOPPED

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dataclasses.asdict(self)


def not_run(why: str) -> Ended:
    """Return the record of a cell that was never started."""
    return Ended(None, NOT_RUN, why, "", None, False)


def write_ended(sweep: Path, job: str, ended: Ended) -> None:
    """Keep the record of job ``job`` in a sweep's folder."""
    write_json(_folder(sweep) / f"{job}.json", ended.plain())


def read_ended(sweep: Path, job: str) -> Ended | None:
    """Return the record of job ``job``, or None if it left none."""
    value = read_json(_folder(sweep) / f"{job}.json")
    return Ended(**value) if isinstance(value, dict) else None


def jobs_ended(sweep: Path) -> list[str]:
    """Return the jobs that have left their record, oldest first."""
    folder = _folder(sweep)
    if not folder.is_dir():
        return []
    files = [(file.stat().st_mtime, file.stem) for file in folder.glob("[!.]*.json")]
    return [job for _, job in sorted(files)]


def _folder(sweep: Path) -> Path:
    return sweep / "ended"
