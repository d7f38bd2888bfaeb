"""``python -m benchmarks.atlas``: what each part of the atlas takes, over many cells.

Cells are copies of real ones: of ``RUNS``, or else of a small sweep that is trained for it. Every
copy has a run key, seed, C or ε of its own and values that differ by ``JITTER``; its larger files
are the same as those of the cell that it was copied from.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from analysis.atlas import NAMES, write_figures
from analysis.cells import read_cells
from analysis.findings.report import write_findings
from analysis.page.document import write_page
from analysis.table_file import write_table
from benchmarks.atlas_planted import plant

ROOT = Path(__file__).resolve().parents[1]
SMALL = ("sweep=atlas", "data=digits", "model=logistic", "seed=0", "debug=fast", "tracker=none")
"""What is trained if no runs are given."""

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Plant cells, write their atlas part by part, print seconds and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.atlas", description=__doc__)
    parser.add_argument("runs", nargs="?", type=Path, help="copy cells of this folder")
    parser.add_argument("--cells", type=int, default=10_000, help="so many cells (10000)")
    parser.add_argument(
        "--into", type=Path, help="plant here, and leave it there; as it is if there"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        runs = options.into or Path(folder) / "planted"
        if not runs.exists():
            plant(options.runs or _trained(Path(folder) / "small"), runs, options.cells)
        measure(runs, Path(folder) / "out")


def measure(runs: Path, out: Path) -> None:
    """Write the atlas of ``runs`` and print what every part took."""
    out.mkdir(parents=True)
    print(f"{'':24}{'wall s':>9}{'CPU s':>9}")
    cells = _timed("table", lambda: read_cells(runs))
    table = cells.table
    _timed("cells.parquet", lambda: write_table(table, out / "cells.parquet"))
    _timed("figures", lambda: write_figures(table, runs, out, NAMES))
    report = _timed("findings", lambda: write_findings(table, runs, out, ()))
    said = report.sentences
    page = _timed("page", lambda: write_page(table, out, runs=runs, findings=said, left_out=()))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    size = page.stat().st_size / 1e6
    print(f"{table['run_key'].nunique()} cells, {len(table)} rows; the page has {size:.1f} MB")
    print(f"{memory:.1f} GB of memory at most")


def _timed(name: str, work: Callable[[], T]) -> T:
    wall, cpu = time.perf_counter(), _cpu()
    found = work()
    print(f"{name:24}{time.perf_counter() - wall:9.1f}{_cpu() - cpu:9.1f}", flush=True)
    return found


def _cpu() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def _trained(runs: Path) -> Path:
    command = [sys.executable, "-m", "dpsgd.run", *SMALL, f"runs_dir={runs}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return runs


if __name__ == "__main__":
    main()
