"""A runs folder with many finished cells, copied from a few real ones."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

from analysis import schema

JITTER = 0.01
"""Standard deviation of what a copy's shares differ by from those of its original."""
SEEDS = 5
"""Copies of one cell that differ in nothing but their seed."""
BUDGETS = (1.0, 0.5, 2.0, 4.0)
"""By what the ε of the original is multiplied."""
STEP = 1.13
"""Each threshold is so many times the one before."""


def plant(source: Path, runs: Path, number: int) -> None:
    """Copy the finished cells of ``source`` until ``runs`` has ``number`` of them.

    Baselines have a copy a seed, all others also one for every ε and C. Larger files are hard
    links, so that the cells take room for ``cell.json`` only.

    Raises ValueError if ``source`` has no finished private cell.
    """
    originals = [
        json.loads(file.read_text("utf-8")) for file in source.glob(f"*/{schema.CELL_FILE}")
    ]
    originals = [cell for cell in originals if cell["status"] == "FINISHED"]
    if not any(cell["private"] for cell in originals):
        raise ValueError(f"{source} has no finished private cell")
    generator = random.Random(0)  # noqa: S311
    runs.mkdir(parents=True)
    for _, (cell, content) in zip(range(number), _copies(originals), strict=False):
        _jitter(content, generator)
        _write(source / cell["run_key"], runs / content["run_key"], content)


def _copies(cells: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield (original, copy), baselines first, then threshold by threshold."""
    baselines = [cell for cell in cells if cell["baseline_key"] == cell["run_key"]]
    others = [cell for cell in cells if cell["baseline_key"] != cell["run_key"]]
    for cell, block in product(baselines, range(SEEDS)):
        yield cell, _copy(cell, block)
    for power in count():
        for budget, block, cell in product(BUDGETS, range(SEEDS), others):
            yield cell, _copy(cell, block) | _elsewhere(cell, block, budget, STEP**power)


def _copy(cell: dict[str, Any], block: int) -> dict[str, Any]:
    seed = cell["seed"] + 100 * block
    return cell | {
        "run_key": _key(cell["run_key"], block),
        "baseline_key": _key(cell["baseline_key"], block),
        "seed": seed,
        "config.seed": seed,
    }


def _elsewhere(cell: dict[str, Any], block: int, budget: float, factor: float) -> dict[str, Any]:
    norm = float(f"{(cell['clip_norm'] or 1.0) * factor:.3g}")
    more = {"clip_norm": norm, "config.clip.norm": norm}
    if cell["private"]:
        target = cell["epsilon_target"] * budget
        more |= {"epsilon": target * 0.999, "epsilon_target": target, "config.epsilon": target}
    return more | {"run_key": _key(cell["run_key"], block, budget, norm)}


def _key(key: str, *more: float) -> str:
    return "-".join([key, *(f"{value:g}" for value in more)])


def _jitter(content: dict[str, Any], generator: random.Random) -> None:
    metrics = content["metrics"]
    content["metrics"] = metrics | {
        "value": [
            value if value is None or not 0 < value < 1
            else min(1.0, max(0.0, value + generator.gauss(0, JITTER)))
            for value in metrics["value"]
        ]
    }  # fmt: skip


def _write(original: Path, folder: Path, content: dict[str, Any]) -> None:
    folder.mkdir()
    for file in original.iterdir():
        if file.name not in (schema.CELL_FILE, schema.MODEL_FILE):
            os.link(file, folder / file.name)
    (folder / schema.CELL_FILE).write_text(json.dumps(content), encoding="utf-8")
