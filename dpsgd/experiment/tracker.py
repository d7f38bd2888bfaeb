"""Copy finished cells to MLflow. The run folder is the truth; a broken tracker costs no run."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from analysis import schema

log = logging.getLogger(__name__)

_REFUSED = re.compile(r"[^\w\-. /:]")
_LONGEST = 250
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
        store = shlex.quote(self._store(folder.parent))
        return (
            f"MLflow: mlflow ui --backend-store-uri {store} --port 5000\n"
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
    """Return ``name`` with what MLflow refuses in a metric's name replaced by ``_``.

    Too long a name is cut and ends in a digest, so that two long names stay two.
    """
    parts = [part for part in _REFUSED.sub("_", name).split("/") if part]
    legal = "/".join("_" * len(part) if part in {".", ".."} else part for part in parts) or "_"
    return legal if len(legal) <= _LONGEST else f"{legal[: _LONGEST - 9]}_{_digest(name)}"


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Return the legal name of every name; names that would share one get a digest each."""
    unique = list(dict.fromkeys(names))
    # SQLite and MLflow's pages tell capitals apart, a file system may not.
    wanted = [legal_name(name).casefold() for name in unique]
    times = Counter(wanted)
    found: dict[str, str] = {}
    for name, want in zip(unique, wanted, strict=True):
        legal = legal_name(name)
        if times[want] > 1:
            legal = f"{legal[: _LONGEST - 9]}_{_digest(name)}"
        found[name] = legal
    return found


def metrics_of(cell: Mapping[str, Any]) -> dict[str, float]:
    """Return final metrics by MLflow name; null and NaN are left out."""
    found = {
        "privacy/epsilon": float(cell["epsilon"]),
        "privacy/delta": float(cell["delta"]),
        "privacy/noise_multiplier": float(cell["noise_multiplier"]),
    }
    columns = cell["metrics"]
    rows = zip(
        *(columns[c] for c in ("split", "slice_kind", "slice", "metric", "value")), strict=True
    )
    for split, kind, name, metric, value in rows:
        if value is None or math.isnan(value):
            continue
        if metric in ("tail_worst", "tail_band"):
            prefix = "" if split == "test" else f"{split}/"
            found[f"{prefix}tail/{metric.removeprefix('tail_')}"] = value
            continue
        stem = metric if split == "train" else f"{'eval' if split == 'test' else split}/{metric}"
        found[f"{stem}/{kind}/{name}"] = value
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
    rows = [(name, value, int(cell["steps"])) for name, value in metrics_of(cell).items()]
    rows += _series(folder)
    legal = legal_names(name for name, _, _ in rows)
    metrics = [Metric(legal[name], value, stamp, step) for name, value, step in rows]
    pairs = [Param(key, value) for key, value in params.items()]
    for start in range(0, len(pairs), 100):
        client.log_batch(run, params=pairs[start : start + 100])
    for start in range(0, len(metrics), 1000):
        client.log_batch(run, metrics=metrics[start : start + 1000])
    client.log_dict(run, {new: name for name, new in legal.items()}, "slices.json")
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
    columns = ("stat", "slice_kind", "slice", "release", "value", "step")
    rows = zip(*(table[column].tolist() for column in columns), strict=True)
    for stat, kind, slice_name, release, value, step in rows:
        if stat == "loss" and kind == schema.GROUP_ALL:
            name = "train/loss"
        elif stat in _SERIES:
            where = f"/{kind}/{slice_name}" if stat in schema.STATS_BY_SLICE else ""
            name = f"private/{stat}{where}" if release == "private" else f"{stat}{where}"
        else:
            continue
        if math.isfinite(value):
            found.append((name, value, step))
    return found


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _warn(error: Exception) -> None:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    log.warning(
        "MLflow: %s. The run folder is complete all the same; tracker=none is quieter", first
    )
