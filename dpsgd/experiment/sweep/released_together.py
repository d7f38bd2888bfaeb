"""What all cells of a sweep would cost together if all of them were released."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsgd.accounting import PLD, RDP, Accountant, DpEvent, Relation
from dpsgd.accounting.merging import composed
from dpsgd.errors import ConfigError
from dpsgd.experiment.identity import NOT_RESULTS
from dpsgd.experiment.parts import plain
from dpsgd.experiment.plan import noise_and_steps
from dpsgd.experiment.remembered import Remembered
from dpsgd.experiment.schedule import Schedule, scheduled
from dpsgd.experiment.settings import Cell
from dpsgd.experiment.sweep.keys import RunKeys, data_name

BOUNDS: tuple[Accountant, ...] = (PLD("pld", 1e-3), RDP("rdp", None))
"""Both are upper bounds. The coarse grid is quick, and loses nothing where ε is large."""

MOST_EVENTS = 12
"""More different cells are composed by RDP alone, which takes no time for each of them."""


@dataclass(frozen=True)
class Together:
    """The private cells of a sweep as one release: ``epsilon`` at ``delta`` for one ``unit``.

    ``why`` says instead why no one ε covers them; it is empty if one does. Without private cells
    ε is 0. ``not_private`` counts the others, which have no ε at all.
    """

    private: int
    not_private: int
    epsilon: float
    delta: float
    unit: str
    why: str


class Schedules:
    """The schedule of every cell, made once for all cells that share it."""

    def __init__(self, keys: RunKeys) -> None:
        self._keys = keys
        self._known: dict[str, Schedule] = {}

    def of(self, cell: Cell) -> Schedule:
        """Return what a cell does with its data. Raises ConfigError."""
        name = self.name(cell)
        if name not in self._known:
            self._known[name] = scheduled(cell, self._keys.bundle(cell))
        return self._known[name]

    def name(self, cell: Cell) -> str:
        """Return what says which schedule, and which budget, a cell has."""
        settings = plain(cell.settings)
        for key in ("seed", *NOT_RESULTS):
            settings.pop(key, None)
        asked = (cell.sampling, cell.decide, cell.accountant, cell.audit)
        parts = [plain(part) for part in asked]
        return json.dumps([data_name(cell), cell.clip.unit, settings, *parts], sort_keys=True)


def released_together(
    cells: Sequence[Cell], schedules: Schedules, cache: Path, again: Sequence[DpEvent] = ()
) -> Together:
    """Return the total of ``cells``, solving σ where ``cache`` does not know it, and of what was
    charged ``again`` of them.

    Raises ConfigError for cells whose noise cannot be solved for.
    """
    private = [cell for cell in cells if cell.private]
    others = len(cells) - len(private)
    if not private:
        return Together(0, others, 0.0, 0.0, "", "")
    names = [schedules.name(cell) for cell in private]
    found = {
        name: schedules.of(cell) for name, cell in dict(zip(names, private, strict=True)).items()
    }
    first = next(iter(found.values()))
    unit, delta = first.sampler.unit, first.delta
    why = _different(found.values(), private)
    if why:
        return Together(len(private), others, math.nan, delta, unit, why)
    each = {name: _event(schedule, cache) for name, schedule in found.items()}
    event = composed([*(each[name] for name in names), *again])
    relation = first.cell.settings.relation
    epsilon = _least(event, relation, delta, cache, quick=len(each) > MOST_EVENTS)
    why = "" if math.isfinite(epsilon) else "no accountant covers them together"
    return Together(len(private), others, epsilon, delta, unit, why)


def _event(schedule: Schedule, cache: Path) -> DpEvent:
    sigma, steps = noise_and_steps(schedule, cache)
    return schedule.event(sigma, steps)


def _least(
    event: DpEvent, relation: Relation, delta: float, cache: Path, *, quick: bool
) -> float:  # fmt: skip
    least = math.inf
    for bound in BOUNDS[1:] if quick else BOUNDS:
        try:
            least = min(least, Remembered(bound, cache).epsilon(event, relation, delta))
        except ConfigError:  # this accountant refuses such an event
            continue
    return least


def _different(schedules: Iterable[Schedule], private: Sequence[Cell]) -> str:
    """Say in which way no one ε covers these cells; empty if one does."""
    if any(cell.debug.common_noise for cell in private):
        return "debug.common_noise: what differs between runs that share their noise is bare"
    known = list(schedules)
    about = {
        "units of privacy": {schedule.sampler.unit for schedule in known},
        "numbers of units": {schedule.sampler.n_units for schedule in known},
        "relations": {schedule.cell.settings.relation for schedule in known},
        "δ": {schedule.delta for schedule in known},
        "data": {data_name(schedule.cell) for schedule in known},
    }
    return next((f"different {what}" for what, values in about.items() if len(values) > 1), "")
