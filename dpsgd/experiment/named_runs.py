"""The runs, and the folder of runs, that a command line names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis import schema
from dpsgd.errors import ConfigError

FOLDER = Path("runs")
"""The folder of runs where none is named, as ``runs_dir`` in ``conf/config.yaml``."""

FOLDER_HELP = "the folder of runs; runs_dir=DIR, or DIR in the first place, are the same"


def words(arguments: Sequence[str] | None) -> list[str]:
    """Return ``arguments``, or those of the process, for ``argparse``: what ``dpsgd.run`` calls
    ``runs_dir=DIR`` is understood as ``--runs-dir=DIR``.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return [f"--{a.replace('_', '-', 1)}" if a.startswith("runs_dir=") else a for a in given]


def takes_runs_dir(parser: argparse.ArgumentParser) -> None:
    """Let a parser take the folder of runs as an option; see :func:`folder_first` for its place."""
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help=FOLDER_HELP)


def folder_first(given: Sequence[str], runs_dir: Path | None) -> tuple[Path, list[str]]:
    """Return the folder of runs and the words that are left: the folder is ``runs_dir`` if that was
    given, else the first word if it is a folder that is no run itself, else ``runs``.
    """
    if runs_dir is not None:
        return runs_dir, list(given)
    if given and is_runs_folder(Path(given[0])):
        return Path(given[0]), list(given[1:])
    return FOLDER, list(given)


def is_runs_folder(folder: Path) -> bool:
    """Whether ``folder`` may hold runs: it is there, and is none itself."""
    files = (schema.STATUS_FILE, schema.LEDGER_FILE)
    return folder.is_dir() and not any((folder / file).exists() for file in files)


def named_runs(given: Sequence[str], runs_dir: Path | None, file: str) -> list[Path]:
    """Return the folders of the runs that were named, each once: by a run's folder, by the start of
    its key in ``runs_dir`` (None: ``runs``), or by a folder of runs for all in it that have a
    ``file``. Nothing but a folder of runs, in whichever way, names all of these.

    Raises ConfigError for a run that is not there.
    """
    from dpsgd.experiment.opened import run_folder  # noqa: PLC0415  (torch, seconds to import)

    runs = FOLDER if runs_dir is None else runs_dir
    found: dict[Path, Path] = {}
    for one in map(Path, given or [str(runs)]):
        inside = [] if (one / file).exists() else sorted(f.parent for f in one.glob(f"*/{file}"))
        if not inside and is_runs_folder(one):
            raise ConfigError("run", one, f"holds no run with {file}")
        for folder in inside or [run_folder(one, runs)]:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())
