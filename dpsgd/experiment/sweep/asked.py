"""The cells that a sweep was asked for: checked, told apart by run key, done or missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_part
from dpsgd.experiment.plan import check_noise
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.record import finished
from dpsgd.experiment.settings import read_cell


@dataclass(frozen=True)
class Asked:
    """One cell of a sweep: the overrides that ask for it, its configuration, run key and folder,
    what people call it, and whether it is finished.
    """

    words: tuple[str, ...]
    config: Mapping[str, Any]
    run_key: str
    folder: Path
    label: str
    done: bool


def asked_cells(composed: Iterable[tuple[Sequence[str], dict[str, Any]]], cwd: Path) -> list[Asked]:
    """Return the cells of (overrides, resolved configuration), each once, those that are not
    finished checked. Raises ConfigError, naming the overrides, if one cannot run.
    """
    found: dict[str, Asked] = {}
    for words, config in composed:
        try:
            cell = _asked(tuple(words), config, cwd)
        except ConfigError as error:
            hint = f"in the cell {' '.join(words)}; no cell was started"
            hint = f"{error.hint}\n{hint}" if error.hint else hint
            raise ConfigError(error.key, error.value, error.allowed, hint) from None
        found.setdefault(cell.run_key, cell)
    return _labelled(list(found.values()))


def chosen(cells: Sequence[Asked], only: Sequence[str] | None) -> list[Asked]:
    """Return the cells whose run keys begin as one of ``only``; None: all. Raises ConfigError for
    a beginning that fits none.
    """
    if only is None:
        return list(cells)
    for start in only:
        if not any(cell.run_key.startswith(start) for cell in cells):
            raise ConfigError("hydra.sweeper.only", start, "is no run key of this sweep")
    return [cell for cell in cells if cell.run_key.startswith(tuple(only))]


def open_trackers(cells: Sequence[Asked]) -> None:
    """Make the stores of what tracks these cells, once: workers that did so together would spoil
    them.
    """
    opened: list[tuple[Any, Path]] = []
    for cell in cells:
        store = (cell.config["tracker"], cell.folder.parent)
        if store not in opened:
            opened.append(store)
            build_part(cell.config["tracker"], "tracker").open(cell.folder.parent)


def _asked(words: tuple[str, ...], config: dict[str, Any], cwd: Path) -> Asked:
    cell = read_cell(config)
    runs = cwd / cell.settings.runs_dir
    prepared = prepare(cell)
    folder = runs / prepared.run_key
    done = finished(folder) is not None
    if not done:
        check_noise(prepared, runs / ".cache")
    return Asked(words, config, prepared.run_key, folder, "", done)


def _labelled(cells: list[Asked]) -> list[Asked]:
    """Call each cell by what sets it apart from the others."""
    shared = set.intersection(*(set(cell.words) for cell in cells)) if len(cells) > 1 else set()
    return [
        replace(cell, label=" ".join(word for word in cell.words if word not in shared))
        for cell in cells
    ]
