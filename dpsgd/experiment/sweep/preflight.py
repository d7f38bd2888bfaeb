"""Every missing cell is checked before one starts: what several share is checked once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dpsgd.engine.gradients import Loss
from dpsgd.errors import ConfigError
from dpsgd.experiment.checked_model import MOST_PROBED, CheckedModel, checked_model
from dpsgd.experiment.parts import plain
from dpsgd.experiment.plan import check_noise
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import Cell
from dpsgd.experiment.sweep.keys import RunKeys, data_name
from dpsgd.experiment.sweep.planned import PlannedCell, in_the_cell
from dpsgd.models.shape import DataShape


def preflight(cells: Sequence[PlannedCell], keys: RunKeys, cache: Path) -> None:
    """Raise ConfigError, naming the cell, or PrivacyError, if one of them could not run.

    ``cache`` is where accountants' answers are kept. A model is tried under one seed, with one rule
    of each kind of clip groups; the cell's own process tries it again before it trains.
    """
    models = _Models()
    for planned in sorted(cells, key=lambda planned: data_name(planned.cell)):
        try:
            prepared = prepare(planned.cell, keys.bundle(planned.cell), models.of)
            check_noise(prepared, cache)
        except ConfigError as error:
            raise in_the_cell(error, planned.words) from None


class _Models:
    """Models that have passed, by all that their checks depend on but the seed."""

    def __init__(self) -> None:
        self._passed: dict[str, CheckedModel] = {}

    def of(self, cell: Cell, shape: DataShape, loss: Loss, largest: float) -> CheckedModel:
        parts = [plain(part) for part in (cell.model, cell.engine, shape)]
        rows = min(MOST_PROBED, round(cell.settings.batch))
        about = (cell.clip.granularity, rows, largest, cell.settings.device, repr(loss))
        question = json.dumps([*parts, *about], sort_keys=True, default=repr)
        if question not in self._passed:
            self._passed[question] = checked_model(cell, shape, loss, largest)
        return self._passed[question]
