"""The run keys of many cells: data are loaded once, not once a cell."""

from __future__ import annotations

import json

from dpsgd.data.bundle import Bundle
from dpsgd.experiment.identity import run_key
from dpsgd.experiment.parts import plain
from dpsgd.experiment.prepared import loaded
from dpsgd.experiment.settings import Cell, baseline


class RunKeys:
    """Run keys of cells, as :func:`dpsgd.experiment.prepared.prepare` gives them one by one.

    The fingerprint of data is kept for as long as this object lives, of the data themselves only
    those that were asked for last: keep cells of the same data together.
    """

    def __init__(self) -> None:
        self._fingerprints: dict[str, str] = {}
        self._last: tuple[str, Bundle] | None = None

    def of(self, cell: Cell) -> tuple[str, str]:
        """Return the run keys of a cell and of its baseline, which may be the same.

        Raises ConfigError for data that cannot be loaded, and for a user's own code without a file.
        """
        known = self._fingerprints.get(data_name(cell)) or self.bundle(cell).fingerprint
        return run_key(cell, known), run_key(baseline(cell), known)

    def bundle(self, cell: Cell) -> Bundle:
        """Return the data of a cell with their owners. Raises ConfigError."""
        name = data_name(cell)
        if self._last is None or self._last[0] != name:
            self._last = (name, loaded(cell))
            self._fingerprints[name] = self._last[1].fingerprint
        return self._last[1]


def data_name(cell: Cell) -> str:
    """Return what says which data a cell has: the settings of its data and of their owners."""
    return json.dumps([plain(cell.data), plain(cell.users)], sort_keys=True)
