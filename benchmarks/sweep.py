"""``python -m benchmarks.sweep``: cells a minute of a sweep, and where the time goes.

It runs the command line itself, from cold: no runs folder, no cache, a fresh process.

    python -m benchmarks.sweep                      the whole atlas, 99 cells of the default data
    python -m benchmarks.sweep --cells 12           twelve of the same kind
    python -m benchmarks.sweep --planted 10000      so many finished cells: what is missing?

Words after the options go to the command line: ``python -m benchmarks.sweep -- tracker=none``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEEDS = 10_000
"""Seeds of a sweep of a given size start here, away from those that people use."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one sweep, print what it took, and say where the time went."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--cells", type=int, help="so many cells; without it, sweep=atlas")
    parser.add_argument("--planted", type=int, help="only plan, over so many finished cells")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON, too")
    parser.add_argument("words", nargs="*", help="for python -m dpsgd.run")
    options = parser.parse_args(arguments)
    if options.planted:
        from benchmarks.sweep_planted import planted  # noqa: PLC0415  (imports torch)

        numbers = planted(options.planted)
    else:
        with tempfile.TemporaryDirectory() as folder:
            numbers = measured(Path(folder), _sweep(options.cells), options.words)
    for line in lines(numbers):
        print(line)
    if options.out:
        options.out.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


def measured(folder: Path, sweep: Sequence[str], words: Sequence[str]) -> dict[str, Any]:
    """Run a sweep in an empty ``folder``; return its seconds and those of its cells.

    Raises RuntimeError, with what it printed, for a sweep that fails.
    """
    environment = os.environ | {
        "XDG_CACHE_HOME": str(folder / "cache"), "DPSGD_CACHE": "", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-m", "dpsgd.run", *sweep, "model=mlp", *words]
    started, clock = time.time(), time.perf_counter()
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - clock
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    told = " ".join(["python -m dpsgd.run", *command[3:]])
    return {"command": told, **_of_cells(folder / "runs", started, wall)}


def lines(numbers: dict[str, Any]) -> list[str]:
    """Return what is printed: the command, then a number in a line."""
    shown = {name: value for name, value in numbers.items() if name != "command"}
    return [str(numbers["command"]), *(f"{name:44} {value:9.3g}" for name, value in shown.items())]


def _sweep(cells: int | None) -> list[str]:
    if cells is None:
        return ["sweep=atlas"]
    seeds = ",".join(str(SEEDS + seed) for seed in range(cells))
    return ["-m", f"seed={seeds}", *(["baselines=false"] if _has_baselines() else [])]


def _has_baselines() -> bool:
    return "\nbaselines:" in (ROOT / "conf" / "config.yaml").read_text(encoding="utf-8")


def _of_cells(runs: Path, started: float, wall: float) -> dict[str, Any]:
    """Add up what finished cells say of themselves, and see when the first began to train.

    Until then one process works: imports, composition, keys, checks, σ. Then cells work beside one
    another; what is not inside ``run_cell`` is their start, their data and the checks of their
    model. The last number is the share of all time, of all workers, that trained or evaluated.
    """
    cells = [json.loads(file.read_text(encoding="utf-8")) for file in runs.glob("*/cell.json")]
    first = min(_created(file.parent) for file in runs.glob("*/cell.json"))
    last = max(file.stat().st_mtime for file in runs.glob("*/status.json"))
    inside, training, evaluation = (
        sum(cell[name] for cell in cells)
        for name in ("seconds", "seconds_training", "seconds_evaluation")
    )
    count, useful = len(cells), training + evaluation
    workers = max(1, round(inside / (last - first)))
    return {
        "cells": count,
        "cells a minute": 60 * count / wall,
        "cells at once": workers,
        "seconds": wall,
        "  before the first cell trains": first - started,
        "  after the last one": started + wall - last,
        "seconds a cell": workers * (last - first) / count,
        "  training": training / count,
        "  evaluation": evaluation / count,
        "  ledger, tables and files": (inside - useful) / count,
        "  start, data, checks, tracker": max(0.0, workers * (last - first) - inside) / count,
        "share of training and evaluation": useful / (workers * wall),
    }


def _created(folder: Path) -> float:
    """Return when a cell's first file was written, which is its configuration."""
    return (folder / "config.yaml").stat().st_mtime


if __name__ == "__main__":
    main()
