"""Where runs are shown besides their folder. The run folder is the truth; a broken tracker costs
no run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dpsgd.errors import folded
from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.single import expect, upload

log = logging.getLogger(__name__)


class Tracker(Protocol):
    """Where finished cells are shown."""

    name: str

    def open(self, folder: Path) -> None:
        """Be told, before training, of the run whose folder this will be; do not wait."""
        ...

    def upload(self, folder: Path, cell: Mapping[str, Any]) -> str | None:
        """Copy one finished cell; return what to tell the user, or None."""
        ...


@dataclass(frozen=True)
class NoTracker:
    """Keep the run folder only (``conf/tracker/none.yaml``)."""

    name: str

    def open(self, folder: Path) -> None:
        """Nothing to make ready."""

    def upload(self, folder: Path, cell: Mapping[str, Any]) -> str | None:
        """Nothing to copy."""
        return None


@dataclass(frozen=True)
class MlflowTracker:
    """Copy cells to MLflow (``conf/tracker/mlflow.yaml``).

    ``uri`` null is a SQLite file in ``runs_dir``, always by its absolute path. A process beside the
    training makes the store ready and copies; it is waited for only so long, and
    ``python -m dpsgd.track push`` copies what is missing later.
    """

    name: str
    uri: str | None
    experiment: str

    def address(self, runs: Path) -> Address:
        """Return where the runs below ``runs`` are copied to."""
        return Address(self.uri, self.experiment, runs)

    def open(self, folder: Path) -> None:
        """Start the process that copies, which makes the store ready meanwhile. Never raises."""
        try:
            expect(self.address(folder.parent), folder.name)
        except OSError as error:  # whatever a tracker does, training goes on
            _warn(self.address(folder.parent), str(error))

    def upload(self, folder: Path, cell: Mapping[str, Any]) -> str | None:
        """Copy one finished cell, once: a run with its key that is finished there is left alone.

        Never raises, and never waits for longer than a limit; a warning says what to do later.
        """
        address = self.address(folder.parent)
        try:
            answer = upload(address, folder.name)
        except OSError as error:
            answer = {"error": str(error)}
        if answer.get("error"):
            _warn(address, answer["error"])
            return None
        return address.page(answer["experiment_id"])


def _warn(address: Address, reason: str) -> None:
    said = folded(f"MLflow: {reason}")
    log.warning(
        "%s\nThe run folder is complete all the same (tracker=none is quieter); push later:\n  %s",
        said, address.push_command,
    )  # fmt: skip
