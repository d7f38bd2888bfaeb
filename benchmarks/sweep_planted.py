"""A runs folder with many finished cells: how long it takes to know what is missing."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals
from hydra.types import RunMode

from analysis import schema
from dpsgd.experiment.options import config_folder
from dpsgd.experiment.sweep.keys import RunKeys
from dpsgd.experiment.sweep.planned import PlannedCell, plan_sweep
from hydra_plugins.clipping_atlas._composing import Composer
from hydra_plugins.clipping_atlas._expanding import override_lists

RULES = "flat,per_layer,adaptive,automatic"
NORMS = "0.03,0.1,0.3,1,3"
HYDRAS_OWN = 5
"""So many jobs are composed by Hydra alone, to compare with."""


def planted(count: int) -> dict[str, Any]:
    """Plant about ``count`` finished cells; return the seconds until it is known that they are.

    All but one cell of every twenty are planted.
    """
    seeds = ",".join(map(str, range(max(1, count // 20))))
    params = {"clip": RULES, "clip.norm": NORMS, "seed": seeds}
    setup_globals()
    loader = ConfigLoaderImpl(create_config_search_path(str(config_folder("conf"))))
    words = ["tracker=none", "model=mlp", "baselines=false"]
    master = loader.load_configuration("config", words, RunMode.MULTIRUN)
    jobs = override_lists(params, None, words, loader)
    composing = _Timed(Composer(loader, master))
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        composed = {tuple(job): composing(job) for job in jobs}
        alone = time.perf_counter()
        for job in jobs[:HYDRAS_OWN]:
            loader.load_sweep_config(master, job)
        alone = (time.perf_counter() - alone) / min(HYDRAS_OWN, len(jobs))
        keys = RunKeys()
        plan = plan_sweep(jobs, lambda job: composed[tuple(job)], cwd, keys)
        for place, cell in enumerate(plan.cells):
            if place % 20:
                _plant(cell)
        index = plan.cells[0].folder.parent / schema.INDEX_FILE
        index.unlink(missing_ok=True)
        asked = [_ask(jobs, composed, cwd) for _ in range(2)]
    return {
        "command": f"{len(jobs)} cells, {len(jobs) - asked[0][1]} of them finished",
        "composition": composing.seconds,
        "  ms a job": 1000 * composing.seconds / len(jobs),
        "  ms a job by Hydra alone": 1000 * alone,
        "what is missing, without an index": asked[0][0],
        "what is missing, with one": asked[1][0],
        "missing": asked[1][1],
    }


class _Timed:
    def __init__(self, compose: Composer) -> None:
        self._compose, self.seconds = compose, 0.0

    def __call__(self, job: Sequence[str]) -> dict[str, Any]:
        before = time.perf_counter()
        config = self._compose(job)
        self.seconds += time.perf_counter() - before
        return config


def _ask(
    jobs: Sequence[Sequence[str]], composed: dict[tuple[str, ...], Any], cwd: Path
) -> tuple[float, int]:
    before = time.perf_counter()
    missing = plan_sweep(jobs, lambda job: composed[tuple(job)], cwd).missing
    return time.perf_counter() - before, len(missing)


def _plant(cell: PlannedCell) -> None:
    cell.folder.mkdir(parents=True)
    metrics = {name: [None] * 200 for name in schema.CELL_METRICS}
    content = {"run_key": cell.run_key, "label": cell.label, "steps": 290, "seconds": 2.0,
               "metrics": metrics}  # fmt: skip
    for name, value in (
        (schema.CELL_FILE, content),
        (schema.STATUS_FILE, {"status": "FINISHED", "host": "here"}),
    ):
        (cell.folder / name).write_text(json.dumps(value), encoding="utf-8")
