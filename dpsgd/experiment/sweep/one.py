"""One cell of a sweep, as its child runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpsgd.experiment.cell import run_cell
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.report import one_line
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.threads import torch_threads

Tell = Callable[[dict[str, Any]], None]


def train_cell(tell: Tell, config: Mapping[str, Any], runs: Path) -> dict[str, Any]:
    """Train the cell of a resolved configuration unless ``runs`` holds it finished.

    Returns its label and its line for people. Tells its run key as soon as that is known. Raises
    whatever :func:`run_cell` does.
    """
    cell = read_cell(config)
    with torch_threads(cell.settings.threads):
        prepared = prepare(cell)
        tell({"run_key": prepared.run_key})
        outcome = run_cell(prepared, runs, _unseen)
    return {"label": outcome.cell["label"], "line": one_line(outcome), "repeated": outcome.repeated}


def _unseen(plan: Plan) -> Callable[[int, float | None, float | None], None]:
    return lambda step, loss, clip_fraction: None
