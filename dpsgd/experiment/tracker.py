"""Copy finished cells to MLflow. The run folder is the truth; a broken tracker costs no run."""

from __future__ import annotations

import logging
import math
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from analysis import schema

log = logging.getLogger(__name__)

_REFUSED = re.compile(r"[^\w\-. /:]")
_SERIES = ("clip_fraction", "kept", "cosine", "relative_length", "noise_norm", "snr")


class Tracker(Protocol):
    """Where finished cells are shown."""

    name: str

    def open(self, runs_dir: Path) -> None:
        """Make the store ready before training; a failure is logged, never raised."""
        ...

    def upload(self, folder: Path, cell: Mapping[str, Any]) -> str | None:
        """Copy one finished cell; return what to tell the user, or None."""
        ...


@dataclass(frozen=True)
class NoTracker:
    """Keep the run folder only (``conf/tracker/none.yaml``)."""

    name: str

    def open(self, runs_dir: Path) -> None:
        """Nothing to make ready."""

    def upload(self, folder: Path, cell: Mapping[str, Any]) -> str | None:
        """Nothing to copy."""
        return None


@dataclass(frozen=True)
class MlflowTracker:
    """Copy cells to MLflow (``conf/tracker/mlflow.yaml``).

    ``uri`` null is a SQLite file in ``runs_dir``, always by its absolute path.
    """

    name: str
    uri: str | None
    experiment: str

    def open(self, runs_dir: Path) -> None:
        """Create database and experiment if they are not there."""
        try:
            self._experiment(runs_dir)
        except Exception as error:  # whatever a tracker does, training goes on
            _warn(error)

    def upload(self, folder: Path, cell: Mapping[str, Any]) -> str | None:
        """Copy one finished cell, once: a run with its key that is finished there is left alone."""
        try:
            client, experiment = self._experiment(folder.parent)
            if not _known(client, experiment, cell["run_key"]):
                _copy(client, experiment, folder, cell)
        except Exception as error:  # whatever a tracker does, the run stays finished
            _warn(error)
            return None
        return (
            f"MLflow: mlflow ui --backend-store-uri {self._store(folder.parent)} --port 5000\n"
            f"        http://127.0.0.1:5000/#/experiments/{experiment}"
            "?workflowType=machine_learning"
        )

    def _store(self, runs_dir: Path) -> str:
        return self.uri or f"sqlite:///{runs_dir.resolve() / 'mlflow.db'}"

    def _experiment(self, runs_dir: Path) -> tuple[Any, str]:
        client = _client(self._store(runs_dir))
        found = client.get_experiment_by_name(self.experiment)
        if found is not None:
            return client, found.experiment_id
        artifacts = None if self.uri else (runs_dir.resolve() / "mlartifacts").as_uri()
        return client, client.create_experiment(self.experiment, artifact_location=artifacts)


def legal_name(name: str) -> str:
    """Return ``name`` with what MLflow refuses in a metric's name replaced by ``_``."""
    name = re.sub(r"/{2,}", "/", _REFUSED.sub("_", name)).strip("/")
    return name[:250] or "_"


def metrics_of(cell: Mapping[str, Any]) -> dict[str, float]:
    """Return final metrics by MLflow name; null ones are left out."""
    found = {
        "privacy/epsilon": float(cell["epsilon"]),
        "privacy/noise_multiplier": float(cell["noise_multiplier"]),
    }
    columns = cell["metrics"]
    rows = zip(
        *(columns[c] for c in ("split", "slice_kind", "slice", "metric", "value")), strict=True
    )
    for split, kind, name, metric, value in rows:
        if value is None:
            continue
        if metric in ("tail_worst", "tail_band"):
            prefix = "" if split == "test" else f"{split}/"
            found[f"{prefix}tail/{metric.removeprefix('tail_')}"] = value
            continue
        stem = metric if split == "train" else f"{'eval' if split == 'test' else split}/{metric}"
        found[f"{stem}/{kind}/{name.replace('/', '_')}"] = value
    return found


def _client(uri: str) -> Any:
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient  # noqa: PLC0415  (3 s, and only if it is used)
    for noisy in ("alembic", "mlflow.store.db.utils", "mlflow"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def _known(client: Any, experiment: str, run_key: str) -> bool:
    found = client.search_runs([experiment], f"tags.run_key = '{run_key}'")
    for run in found:
        if run.info.status == "FINISHED":
            return True
        client.delete_run(run.info.run_id)
    return False


def _copy(client: Any, experiment: str, folder: Path, cell: Mapping[str, Any]) -> None:
    from mlflow.entities import Metric, Param  # noqa: PLC0415

    tags = {"run_key": cell["run_key"], "kind": "cell"}
    run = client.create_run(experiment, run_name=cell["label"], tags=tags).info.run_id
    params = {
        legal_name(key.removeprefix("config.")): str(value)[:500]
        for key, value in cell.items()
        if key.startswith("config.")
    }
    params |= {"rule": cell["rule"], "mechanism": cell["mechanism"]}
    stamp = int(cell["seconds"] * 1000)
    named = {legal_name(name): name for name in metrics_of(cell)}
    metrics = [
        Metric(legal, metrics_of(cell)[name], stamp, int(cell["steps"]))
        for legal, name in named.items()
    ] + [Metric(name, value, stamp, step) for name, value, step in _series(folder)]
    pairs = [Param(key, value) for key, value in params.items()]
    for start in range(0, len(pairs), 100):
        client.log_batch(run, params=pairs[start : start + 100])
    for start in range(0, len(metrics), 1000):
        client.log_batch(run, metrics=metrics[start : start + 1000])
    client.log_dict(run, named, "slices.json")
    for name in (schema.CELL_FILE, schema.LEDGER_FILE, schema.LEDGER_PAGE, schema.CONFIG_FILE):
        if (folder / name).exists():
            client.log_artifact(run, str(folder / name))
    client.set_terminated(run, "FINISHED")


def _series(folder: Path) -> list[tuple[str, float, int]]:
    """Return telemetry over time as (name, value, step); private rows are named so."""
    file = folder / schema.TELEMETRY_FILE
    if not file.exists():
        return []
    table = pd.read_parquet(file)
    table = table[(table["group"] == schema.GROUP_ALL) & table["value"].notna()]
    found: list[tuple[str, float, int]] = []
    rows: Any = table
    for row in map(_Row, rows.to_dict(orient="records")):
        if row.stat == "loss":
            name = "train/loss"
        elif row.stat in _SERIES:
            where = f"/{row.slice_kind}/{row.slice.replace('/', '_')}"
            name = f"{row.stat}{where if row.stat in schema.STATS_BY_SLICE else ''}"
            name = f"private/{name}" if row.release == "private" else name
        else:
            continue
        value = row.value
        if math.isfinite(value):
            found.append((legal_name(name), value, row.step))
    return found


class _Row:
    """One telemetry row by attribute."""

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self.stat, self.release = str(values["stat"]), str(values["release"])
        self.slice_kind, self.slice = str(values["slice_kind"]), str(values["slice"])
        self.value, self.step = float(values["value"]), int(values["step"])


def _warn(error: Exception) -> None:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    log.warning(
        "MLflow: %s. The run folder is complete all the same; tracker=none is quieter", first
    )
