"""The run of MLflow that stands for a sweep: it holds the table of the sweep's cells."""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import schema
from dpsgd.experiment.allowed import gate_of
from dpsgd.experiment.files import read_json
from dpsgd.experiment.mlflow_names import legal_name
from dpsgd.experiment.track.client import Store, metrics
from dpsgd.experiment.track.ended import ended

NAME = "cells"
"""The table's name: ``cells.csv`` and ``cells.json``."""
_OF_CELL = (
    "label", "rule", "clip_norm", "mechanism", "epsilon", "delta", "noise_multiplier", "model",
    "data", "seed", "seconds",
)  # fmt: skip
_OF_TEST = ("accuracy", "tail_worst", "tail_band")


def table(runs: Path, keys: Iterable[str]) -> pd.DataFrame:
    """Return a row a cell: key, how it ended, what it was, its final scores, why it failed.

    Cells that have not begun, or still run, are in it too. Of a released run the table says only
    what the run's own gate lets out.
    """
    rows = [_row(runs / key) for key in keys]
    columns = ["run_key", "status", *_OF_CELL, *_OF_TEST, "kept", "error"]
    return pd.DataFrame(rows, columns=columns)


def summarise(store: Store, runs: Path, name: str, keys: Iterable[str]) -> str:
    """Write the summary run of the sweep ``name`` and return its id: one a sweep, written again
    when the table is another one.
    """
    cells = table(runs, keys)
    text = cells.to_csv(index=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    legal, client = legal_name(name), store.client
    found = list(store.runs(f"tags.kind = 'summary' and tags.sweep = '{legal}'"))
    if found and found[0].data.tags.get("table") == digest:
        return found[0].info.run_id
    now = int(time.time() * 1000)
    run = found[0].info.run_id if found else client.create_run(
        store.experiment_id, run_name=f"sweep {name}", start_time=now,
        tags={"kind": "summary", "sweep": legal},
    ).info.run_id  # fmt: skip
    counts = cells["status"].value_counts().to_dict() | {"cells": len(cells)}
    client.log_batch(
        run, metrics=metrics([(f"cells/{k.lower()}", float(n), now, 0) for k, n in counts.items()])
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{NAME}.csv").write_text(text, encoding="utf-8")
        cells.to_json(Path(folder, f"{NAME}.json"), orient="records", indent=1, force_ascii=False)
        client.log_artifacts(run, folder)
    client.set_tag(run, "table", digest)  # last: without it the next push writes all of it again
    client.set_terminated(run, "FINISHED", end_time=now)
    return run


def _row(folder: Path) -> dict[str, Any]:
    found = ended(folder)
    how = found[0] if found is not None else "RUNNING" if folder.exists() else "MISSING"
    row: dict[str, Any] = {"run_key": folder.name, "status": how}
    if found is None:
        return row
    if how == "FINISHED":
        cell = read_json(folder / schema.CELL_FILE)
        return row | _of_cell(cell) if isinstance(cell, dict) else row
    return row | {"error": _error(folder, found[1])}


def _of_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    shown = gate_of(release=bool(cell.get("config.release"))).cell(cell)
    columns = [shown["metrics"][c] for c in ("split", "slice_kind", "metric", "value")]
    overall = {
        (split, metric): value
        for split, kind, metric, value in zip(*columns, strict=True)
        if kind == "all" and value is not None and math.isfinite(value)
    }
    scores = {metric: overall.get(("test", metric)) for metric in _OF_TEST}
    return {name: shown.get(name) for name in _OF_CELL} | scores | {
        "kept": overall.get(("train", "kept"))
    }  # fmt: skip


def _error(folder: Path, status: Mapping[str, Any]) -> str:
    """Return what ended a cell, in a line: of a released one only the kind of error."""
    try:
        config = yaml.safe_load((folder / schema.CONFIG_FILE).read_text(encoding="utf-8"))
        release = bool(config.get("release", True))
    except (OSError, yaml.YAMLError, AttributeError):
        release = True  # nobody knows: as if it were
    shown = gate_of(release=release).status(status)
    lines = str(shown.get("traceback", "")).strip().splitlines()
    return lines[-1] if lines else str(shown.get("stopped_by", "its process is gone"))
