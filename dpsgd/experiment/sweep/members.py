"""Which cells a sweep has: ``runs/sweeps/<name>.json``, kept beside the runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.errors import BusyError
from dpsgd.experiment.clock import now
from dpsgd.experiment.files import read_json, write_json, writing
from dpsgd.experiment.holder import CLAIMS
from dpsgd.experiment.locks import Lock, lock

SWEEP_VERSION = 1
ELSEWHERE = ("runs_dir=", "tracker=", "tracker.", "hydra.", "hydra/")
"""Overrides, without their ``+`` or ``~``, that change no cell: where and how a sweep ran."""

PATIENCE = 30.0
"""Seconds to wait for another process that is writing the same sweep."""

_LEGAL = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Sweep:
    """A sweep by its ``name``. A cell may belong to several.

    ``asked`` holds the overrides of each command that added cells to it, as they were given,
    ``keys`` the run keys of the cells that were asked for and ``baselines`` those that they are
    compared with, each once, in the order of the commands.
    """

    name: str
    asked: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]
    baselines: tuple[str, ...]
    made_at: str


def sweep_name(name: str | None, overrides: Sequence[str]) -> str:
    """Return the name of a sweep's file: its own, or of a multirun without one its overrides'.

    The same overrides in another order have the same name, wherever the runs are kept.
    """
    if name:
        legal = _LEGAL.sub("_", name).lstrip(".")
        return legal if legal == name else f"{legal}-{_digest([name])}"
    return f"multirun-{_digest(sorted(_of_cells(overrides)))}"


def add_to_sweep(
    runs: Path, name: str, overrides: Sequence[str], keys: Iterable[str], baselines: Iterable[str]
) -> Sweep:
    """Write a sweep's cells down before they run; what it had before it keeps.

    ``name`` is as :func:`sweep_name` gives it. Raises UnwritableError, and BusyError if another
    process is writing the same sweep for long.
    """
    file = sweep_file(runs, name)
    with _alone(runs, name):
        before = read_sweep(runs, name) or Sweep(name, (), (), (), now())
        sweep = Sweep(
            name,
            _each_once([*before.asked, tuple(_of_cells(overrides))]),
            _each_once([*before.keys, *keys]),
            _each_once([*before.baselines, *baselines]),
            before.made_at,
        )
        if sweep != before or not file.exists():
            write_json(file, {
                "sweep_version": SWEEP_VERSION, "name": name, "made_at": sweep.made_at,
                "changed_at": now(), "asked": sweep.asked, "keys": sweep.keys,
                "baselines": sweep.baselines,
            })  # fmt: skip
    return sweep


def read_sweep(runs: Path, name: str) -> Sweep | None:
    """Return a sweep, None if there is none of that name or its file is torn."""
    content: Any = read_json(sweep_file(runs, name))
    try:
        asked = tuple(tuple(map(str, overrides)) for overrides in content["asked"])
        keys, baselines = (tuple(map(str, content[kind])) for kind in ("keys", "baselines"))
        return Sweep(str(content["name"]), asked, keys, baselines, str(content["made_at"]))
    except (TypeError, KeyError):
        return None


def sweep_names(runs: Path) -> list[str]:
    """Return the names of the sweeps of a runs folder, sorted."""
    return sorted(file.stem for file in (runs / schema.SWEEPS_FOLDER).glob("*.json"))


def sweep_file(runs: Path, name: str) -> Path:
    """Return where a sweep's cells are written down."""
    return runs / schema.SWEEPS_FOLDER / f"{name}.json"


@contextmanager
def _alone(runs: Path, name: str) -> Iterator[None]:
    """Write a sweep alone, so that what two processes add at once is kept of both.

    On a file system without locks the last one is kept, and asking again adds the rest.
    """
    file = runs / CLAIMS / f"sweep-{name}.lock"
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with lock(file, PATIENCE) as found:
        if found is Lock.ANOTHERS:
            raise BusyError(str(sweep_file(runs, name)), None, None, None)
        try:
            yield
        finally:
            if found is Lock.OURS:
                file.unlink(missing_ok=True)


def _of_cells(overrides: Iterable[str]) -> list[str]:
    """Return the overrides that say which cells; where the runs lie is known to who reads them."""
    return [given for given in overrides if not given.lstrip("+~").startswith(ELSEWHERE)]


def _each_once(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]
