"""What a sweep is going to do: its cells, each once, with their baselines, and which are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_part
from dpsgd.experiment.record import label_of
from dpsgd.experiment.settings import Cell, read_cell
from dpsgd.experiment.sweep.index import Index
from dpsgd.experiment.sweep.keys import RunKeys

Compose = Callable[[Sequence[str]], Mapping[str, Any]]
"""From the overrides of a job to its resolved configuration."""

BASELINE = "mechanism=neither"


@dataclass(frozen=True)
class PlannedCell:
    """One cell of a sweep: the overrides that ask for it, what they say, and whether it is done.

    ``added``: nobody asked for it by name; it is the baseline of one that was asked for.
    """

    words: tuple[str, ...]
    config: Mapping[str, Any]
    cell: Cell
    run_key: str
    baseline_key: str
    folder: Path
    label: str
    done: bool
    added: bool


@dataclass(frozen=True)
class SweepPlan:
    """The cells of a sweep in the order in which they start, and how many were asked for."""

    cells: tuple[PlannedCell, ...]
    asked: int

    def only(self, starts: Sequence[str] | None) -> SweepPlan:
        """Return the plan of the cells whose run keys begin as one of ``starts``; None: of all.

        Raises ConfigError for a beginning that fits none.
        """
        if starts is None:
            return self
        for start in starts:
            if not any(cell.run_key.startswith(start) for cell in self.cells):
                raise ConfigError("hydra.sweeper.only", start, "is no run key of this sweep")
        kept = tuple(c for c in self.cells if c.run_key.startswith(tuple(starts)))
        return SweepPlan(kept, sum(not cell.added for cell in kept))

    @property
    def missing(self) -> tuple[PlannedCell, ...]:
        """The cells that are still to be trained."""
        return tuple(planned for planned in self.cells if not planned.done)

    @property
    def baselines(self) -> tuple[PlannedCell, ...]:
        """The cells that others are compared with, asked for or added."""
        return tuple(planned for planned in self.cells if planned.run_key == planned.baseline_key)

    @property
    def merged(self) -> int:
        """How many were asked for that are the same run as another."""
        return self.asked - sum(not planned.added for planned in self.cells)


def plan_sweep(
    jobs: Iterable[Sequence[str]], compose: Compose, cwd: Path, keys: RunKeys | None = None
) -> SweepPlan:
    """Return the plan of a sweep over ``jobs``, the overrides of each.

    Its runs folder is below ``cwd``. The baseline of a cell, if its configuration says
    ``baselines: true``, is the same overrides with ``mechanism=neither``, and comes before the
    first cell that is compared with it. A released cell has none: a diagnostic is trained beside a
    release, never with it.

    Raises ConfigError, naming the overrides, for settings that cannot be used, and for a sweep over
    folders to keep runs in.
    """
    planning = _Planning(compose, cwd, keys or RunKeys())
    asked = 0
    for words in jobs:
        planning.add(tuple(words))
        asked += 1
    return SweepPlan(tuple(planning.cells.values()), asked)


def told_apart(cells: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Return the cells, each called by the overrides that not all of them have."""
    shared = set.intersection(*(set(cell.words) for cell in cells)) if len(cells) > 1 else set()
    own = [" ".join(word for word in cell.words if word not in shared) for cell in cells]
    return [
        replace(cell, label=words or cell.label) for cell, words in zip(cells, own, strict=True)
    ]


def in_the_cell(error: ConfigError, words: Sequence[str]) -> ConfigError:
    """Return the same error with the cell that has it."""
    hint = f"in the cell {' '.join(words)}; no cell was started"
    hint = f"{error.hint}\n{hint}" if error.hint else hint
    return ConfigError(error.key, error.value, error.allowed, hint)


class _Planning:
    def __init__(self, compose: Compose, cwd: Path, keys: RunKeys) -> None:
        self.cells: dict[str, PlannedCell] = {}
        self._compose, self._cwd, self._keys = compose, cwd, keys
        self._parts = _SharedParts()
        self._runs: Path | None = None
        self._finished: frozenset[str] = frozenset()

    def add(self, words: tuple[str, ...]) -> None:
        """Add the cell of these overrides, and before it its baseline, unless they are there."""
        config = self._compose(words)
        try:
            found = self._planned(words, config, added=False)
        except ConfigError as error:
            raise in_the_cell(error, words) from None
        before = self.cells.get(found.run_key)
        if before is not None:
            if before.added:  # asked for by name after all
                self.cells[found.run_key] = found
            return
        settings = found.cell.settings
        wanted = settings.baselines and not settings.release
        if wanted and found.baseline_key not in {found.run_key, *self.cells}:
            other = _as_baseline(words)
            reference = self._planned(other, self._compose(other), added=True)
            self.cells.setdefault(reference.run_key, reference)
        self.cells[found.run_key] = found

    def _planned(
        self, words: tuple[str, ...], config: Mapping[str, Any], *, added: bool
    ) -> PlannedCell:
        cell = read_cell(config, self._parts)
        runs = self._cwd / cell.settings.runs_dir
        if self._runs is None:
            self._runs, self._finished = runs, frozenset(Index(runs).finished())
        elif runs != self._runs:
            raise ConfigError("runs_dir", cell.settings.runs_dir, "must be one folder for a sweep")
        run_key, baseline_key = self._keys.of(cell)
        return PlannedCell(
            words, config, cell, run_key, baseline_key, runs / run_key, label_of(cell, None),
            run_key in self._finished, added,
        )  # fmt: skip


class _SharedParts:
    """Builds each part once for all cells that have it: it is frozen, and nobody trains by it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Any] = {}

    def __call__(self, node: Mapping[str, Any], key: str) -> Any:
        about = (key, repr(node))
        if about not in self._known:
            self._known[about] = build_part(node, key)
        return self._known[about]


def _as_baseline(words: Sequence[str]) -> tuple[str, ...]:
    key = BASELINE.partition("=")[0]
    return (*(word for word in words if word.partition("=")[0] != key), BASELINE)
