"""Pages of planted cells, written once a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from planted_cells import cell, set_value, sweep, write
from planted_details import PER_LABEL, gradients, write_details

from analysis.cells import read_cells
from analysis.page.document import write_page
from analysis.page.measured import GRADIENTS_FILE

RULES = ("flat", "per_layer")
NORMS = (0.3, 1.0, 3.0)
SEEDS = 2


def page_of(folder: Path, cells: Sequence[dict[str, Any]], *findings: str) -> Path:
    """Write cells and their page into ``folder``; return the page."""
    write(folder, *cells)
    read = read_cells(folder)
    left_out = [(entry.folder, entry.reason) for entry in read.left_out]
    return write_page(read.table, folder, runs=folder, findings=findings, left_out=left_out)


def usual_cells() -> list[dict[str, Any]]:
    """Return two rules at three C with two seeds, their diagnostics, and baselines."""
    return [*sweep(RULES, NORMS, SEEDS), *clip_only(RULES, NORMS, SEEDS)]


def clip_only(rules: Sequence[str], norms: Sequence[float], seeds: int) -> list[dict[str, Any]]:
    """Return diagnostics that clip without noise."""
    return [
        cell(rule, norm, seed, mechanism="clip_only")
        for rule in rules
        for norm in norms
        for seed in range(seeds)
    ]


def usual_page(folder: Path) -> Path:
    """Write a page whose cells have everything that a run leaves."""
    cells = usual_cells()
    for content in cells:
        for name in [str(digit) for digit in range(10)]:
            set_value(content, {"slice": name, "split": "test", "metric": "recall"}, 0.5, PER_LABEL)
        write_details(folder / content["run_key"])
    gradients().to_parquet(folder / cells[0]["run_key"] / GRADIENTS_FILE, index=False)
    return page_of(folder, cells, "Flat clipping keeps 45 % of the 8s’ gradient.")


@contextmanager
def settled(page: Any) -> Iterator[None]:
    """Wait, after the body, until every chart has drawn what it was given."""
    yield
    drawn = "Promise.all(Object.values(Atlas.views).map((entry) => entry.ready)).then(() => 0)"
    page.evaluate(drawn)
