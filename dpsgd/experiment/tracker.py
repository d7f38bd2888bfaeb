"""Copy finished cells to MLflow. The run folder is the truth; a broken tracker costs no run."""

from __future__ import annotations

import datetime
import logging
import math
import os
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import pandas as pd

from analysis import schema
from dpsgd.experiment.mlflow_names import (
    VIEW,
    VIEW_QUERY,
    guarantee,
    legal_name,
    legal_names,
    metrics_of,
    shared_view,
)

log = logging.getLogger(__name__)

_SERIES = (
    *("clip_fraction", "kept", "cosine", "relative_length", "noise_norm", "snr", "dropped"),
    *("probe_clip_fraction", "probe_kept"),
)


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
        page = f"/#/experiments/{experiment}/runs?{VIEW_QUERY}"
        if self.uri and self.uri.startswith(("http://", "https://")):
            return f"MLflow: {without_password(self.uri).rstrip('/')}{page}"
        store = shlex.quote(without_password(self._store(folder.parent)))
        return (
            f"MLflow: mlflow ui --backend-store-uri {store} --port 5000\n"
            f"        http://127.0.0.1:5000{page}"
        )

    def _store(self, runs_dir: Path) -> str:
        return self.uri or f"sqlite:///{runs_dir.resolve() / 'mlflow.db'}"

    def _experiment(self, runs_dir: Path) -> tuple[Any, str]:
        client = _client(self._store(runs_dir))
        found = client.get_experiment_by_name(self.experiment)
        if found is not None:
            return client, found.experiment_id
        artifacts = None if self.uri else (runs_dir.resolve() / "mlartifacts").as_uri()
        made = client.create_experiment(self.experiment, artifact_location=artifacts)
        client.set_experiment_tag(made, f"mlflow.sharedViewState.{VIEW}", shared_view())
        return client, made


def without_password(uri: str) -> str:
    """Return ``uri`` with the password, if it has one, replaced by ``***``."""
    parts = urlsplit(uri)
    if parts.password is None:
        return uri
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))


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
    end = int(datetime.datetime.fromisoformat(cell["finished_at"]).timestamp() * 1000)
    start = end - int(cell.get("seconds", 0.0) * 1000)  # a released run does not say
    run = client.create_run(
        experiment, run_name=cell["label"], tags=tags, start_time=start
    ).info.run_id
    params = {
        legal_name(key.removeprefix("config.")): str(value)[:500]
        for key, value in cell.items()
        if key.startswith("config.") and not key.endswith("_target_")
    }
    params |= {"rule": cell["rule"], "mechanism": cell["mechanism"], "guarantee": guarantee(cell)}
    ended = ("stopped_by", "steps_taken", "step_released", "looks_taken")
    params |= {name: cell[name] for name in ended if "looks_taken" in cell}
    per_step = (end - start) / max(int(cell["steps"]), 1)
    # At step 0 MLflow draws final values as bars; at the last step as curves of one point.
    rows = [(name, value, 0) for name, value in metrics_of(cell).items()]
    rows += _series(folder) + _looks(folder)
    legal = legal_names(name for name, _, _ in rows)
    metrics = [
        Metric(legal[name], value, start + int(per_step * step), step) for name, value, step in rows
    ]
    pairs = [Param(key, value) for key, value in params.items()]
    for first in range(0, len(pairs), 100):
        client.log_batch(run, params=pairs[first : first + 100])
    for first in range(0, len(metrics), 1000):
        client.log_batch(run, metrics=metrics[first : first + 1000])
    client.log_dict(run, {new: name for name, new in legal.items()}, "slices.json")
    for name in (schema.CELL_FILE, schema.LEDGER_FILE, schema.LEDGER_PAGE, schema.CONFIG_FILE):
        if (folder / name).exists():
            client.log_artifact(run, str(folder / name))
    client.set_terminated(run, "FINISHED", end_time=end)


def _series(folder: Path) -> list[tuple[str, float, int]]:
    """Return telemetry over time as (name, value, step); private rows are named so."""
    file = folder / schema.TELEMETRY_FILE
    if not file.exists():
        return []
    table = pd.read_parquet(file)
    table = table[(table["group"] == schema.GROUP_ALL) & table["value"].notna()]
    found: list[tuple[str, float, int]] = []
    columns = ("stat", "slice_kind", "slice", "release", "value", "step")
    rows = zip(*(table[column].tolist() for column in columns), strict=True)
    for stat, kind, slice_name, release, value, step in rows:
        if stat == "loss" and kind == schema.GROUP_ALL:
            name = "train/loss"
        elif stat in _SERIES:
            by_slice = (*schema.STATS_BY_SLICE, *schema.STATS_OF_PROBE)
            where = f"/{kind}/{slice_name}" if stat in by_slice else ""
            name = f"private/{stat}{where}" if release == "private" else f"{stat}{where}"
        else:
            continue
        if math.isfinite(value):
            found.append((name, value, step))
    return found


def _looks(folder: Path) -> list[tuple[str, float, int]]:
    """Return the scores by which training was decided, as (name, value, step)."""
    file = folder / schema.EVALUATION_FILE
    if not file.exists():
        return []
    table = pd.read_parquet(file)
    table = table[table["metric"] == schema.LOOK]
    columns = ("split", "metric", "release", "value", "step")
    rows = zip(*(table[column].tolist() for column in columns), strict=True)
    return [
        (f"private/{split}/{name}" if release == "private" else f"{split}/{name}", value, step)
        for split, name, release, value, step in rows
    ]


def _warn(error: Exception) -> None:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    log.warning(
        "MLflow: %s. The run folder is complete all the same; tracker=none is quieter", first
    )
