"""The runs that a command line names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def words(arguments: Sequence[str] | None) -> list[str]:
    """Return ``arguments``, or those of the process, for ``argparse``: what ``dpsgd.run`` calls
    ``runs_dir=DIR`` is understood as ``--runs-dir=DIR``.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return [f"--{a.replace('_', '-', 1)}" if a.startswith("runs_dir=") else a for a in given]


def named_runs(given: Sequence[str], runs: Path, file: str) -> list[Path]:
    """Return the folders of the runs that were named, each once: by a run's folder, by the start of
    its key in ``runs``, or by a folder of runs for all in it that have a ``file``.

    Raises ConfigError for a run that is not there.
    """
    from dpsgd.experiment.opened import run_folder  # noqa: PLC0415  (torch, seconds to import)

    found: dict[Path, Path] = {}
    for one in map(Path, given):
        inside = [] if (one / file).exists() else sorted(f.parent for f in one.glob(f"*/{file}"))
        for folder in inside or [run_folder(one, runs)]:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())
