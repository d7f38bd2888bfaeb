"""``python -m benchmarks.page``: size and loading time of the page for planted cells.

500 cells (rule × C × seed) by 14 slices, each with norms, predictions, ledger and config. Times
are of Chromium from ``goto`` until every view is drawn, the median of ``REPEATS``; beside it the
CPU time of the page's thread, which other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from analysis.cells import read_cells
from analysis.page.document import write_page

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 5


def main() -> None:
    """Plant, write, open, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each condition (5)")
    seeds = parser.parse_args().seeds
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        cells = plant(runs, seeds)
        started = time.perf_counter()
        read = read_cells(runs)
        file = write_page(read.table, runs, runs=runs, findings=(), left_out=())
        written = time.perf_counter() - started
        size = file.stat().st_size / 1e6
        print(f"{cells} cells, {seeds} seeds: {size:.2f} MB in {written:.1f} s")
        whole, thread = opened(file)
        print(f"usable after {whole:.2f} s, {thread:.2f} s of it on the CPU")


def plant(runs: Path, seeds: int) -> int:
    """Write 500 cells with their files, and a baseline for each seed; return how many."""
    sys.path.append(str(ROOT / "tests" / "analysis"))
    # Of the tests, which no wheel holds.
    planted_cells: Any = importlib.import_module("planted_cells")
    planted_details: Any = importlib.import_module("planted_details")
    places = [*planted_cells.slices(bands=("head", "middle", "tail"))]
    norms = [round(0.01 * 1.2**step, 4) for step in range(500 // 4 // seeds)]
    rules = ["flat", "per_layer", "adaptive", "automatic"]
    cells: list[dict[str, Any]] = planted_cells.sweep(rules, norms, seeds, places=places)
    planted_cells.write(runs, *cells)
    first = runs / cells[0]["run_key"]
    planted_details.write_details(first)
    for content in cells[1:]:
        for file in first.iterdir():
            if file.name != "cell.json":
                shutil.copy(file, runs / content["run_key"] / file.name)
    return len(cells)


def opened(file: Path) -> tuple[float, float]:
    """Return the medians of seconds until the page is drawn, in all and on the CPU."""
    times: list[float] = []
    on_cpu: list[float] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for _ in range(REPEATS):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            devtools = page.context.new_cdp_session(page)
            devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
            started = time.perf_counter()
            page.goto(file.resolve().as_uri())
            page.wait_for_selector("body[data-ready=yes]")
            times.append(time.perf_counter() - started)
            found = devtools.send("Performance.getMetrics")["metrics"]
            on_cpu.append(next(m["value"] for m in found if m["name"] == "TaskDuration"))
            page.close()
        browser.close()
    return statistics.median(times), statistics.median(on_cpu)


if __name__ == "__main__":
    main()
