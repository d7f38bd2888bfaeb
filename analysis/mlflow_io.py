"""The atlas and MLflow: cells are read from it where no run folders are, and the atlas is logged.

The only import of mlflow in ``analysis``. Nothing here waits for ever, unless the environment sets
other limits, and no error shows the password of a store's address.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from analysis import schema

EXPERIMENT = "clipping-atlas"
DATABASE = "mlflow.db"
PLACE = "atlas"
"""The folder of the summary run's artifacts in which the atlas lies."""

_SQLITE = "sqlite:///"
_LIMITS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
_FILES = (schema.CELL_FILE, schema.CONFIG_FILE, schema.LEDGER_FILE, schema.STATUS_FILE)
_COPY_OF = ".mlflow_run"
_SWEEP = "sweep."


@dataclass(frozen=True)
class Tracking:
    """A store of MLflow and the name of the experiment in it."""

    uri: str
    experiment: str = EXPERIMENT

    @property
    def shown(self) -> str:
        """The address without its password."""
        password = urlsplit(self.uri).password
        return self.uri.replace(f":{password}@", ":***@") if password else self.uri


def is_uri(text: str) -> bool:
    """Say whether ``text`` is the address of a store, and not a folder."""
    return re.match(r"[a-z][a-z+]+://", text) is not None


def tracking_of(runs: Path) -> Tracking | None:
    """Return where the runs of a folder are tracked, None if nothing says so.

    By the configuration of a run that has a tracker, else the database in the folder.
    """
    for file in sorted(runs.glob(f"*/{schema.CONFIG_FILE}")):
        text = file.read_text(encoding="utf-8")
        found = re.search(r"^tracker:\n(?:[ ]+.*\n?)+", text, re.MULTILINE)
        tracker = yaml.safe_load(found[0])["tracker"] if found else {}
        if tracker.get("name") == "mlflow":
            uri = tracker.get("uri") or _usual(runs)
            return Tracking(uri, tracker.get("experiment") or EXPERIMENT)
    return Tracking(_usual(runs)) if (runs / DATABASE).is_file() else None


def log_atlas(tracking: Tracking, sweep: str, out: Path, files: Iterable[Path], runs: str) -> str:
    """Log ``files``, below ``out``, to the summary run of ``sweep`` and return the id of that run.

    Logged again, they take the place of those before. ``runs`` is how the user named the runs.

    Raises ``OSError``: no such store or summary run, or MLflow cannot do it.
    """
    with _opened(tracking) as store:
        run = _summary(store, sweep)
        if run is None:
            raise OSError(
                f"{tracking.shown} has no summary run of sweep {sweep}; "
                f"python -m dpsgd.track push {runs} --uri {tracking.shown} makes it"
            )
        for file in files:
            folder = (Path(PLACE) / file.relative_to(out)).parent.as_posix()
            store.client.log_artifact(run.info.run_id, str(file), folder)
        return run.info.run_id


def fetch_cells(tracking: Tracking, folder: Path) -> Path:
    """Copy cells, and which sweeps they belong to, from MLflow into ``folder``; return it.

    What is there already is kept. MLflow has neither telemetry nor predictions, so that figures of
    those will say that they are missing.

    Raises ``OSError``: no such store or experiment, or MLflow cannot do it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _opened(tracking) as store:
        names: dict[str, str] = {
            run.data.tags.get("sweep", ""): _name(run) for run in store.runs("summary")
        }
        sweeps: dict[str, list[str]] = {}
        for run in store.runs("cell"):
            key = run.data.tags.get("run_key", "")
            if run.info.status == "RUNNING" or not re.fullmatch(r"[\w-]+", key):
                continue
            _fetch(store, run.info.run_id, folder / key)
            for tag in run.data.tags:
                if tag.startswith(_SWEEP):
                    legal = tag.removeprefix(_SWEEP)
                    sweeps.setdefault(names.get(legal) or legal, []).append(key)
    for name, keys in sweeps.items():
        file = folder / schema.SWEEPS_FOLDER / f"{name.replace('/', '_')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"name": name, "keys": sorted(set(keys))}), encoding="utf-8")
    return folder


@dataclass(frozen=True)
class _Store:
    client: Any
    experiment: str

    def runs(self, kind: str) -> Iterator[Any]:
        """Yield the runs of a kind, page by page."""
        token: str | None = None
        while True:
            page = self.client.search_runs(
                [self.experiment], f"tags.kind = '{kind}'", max_results=1000, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return


@contextlib.contextmanager
def _opened(tracking: Tracking) -> Iterator[_Store]:
    file = Path(tracking.uri.removeprefix(_SQLITE))
    if tracking.uri.startswith(_SQLITE) and not file.is_file():
        raise FileNotFoundError(f"{file}: no such database")  # MLflow would make an empty one
    for name, value in _LIMITS.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient  # noqa: PLC0415  (seconds, and only if it is used)
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            client = MlflowClient(tracking_uri=tracking.uri)
            found = client.get_experiment_by_name(tracking.experiment)
            if found is None:
                raise OSError(f"{tracking.shown} has no experiment {tracking.experiment}")
            yield _Store(client, found.experiment_id)
        except MlflowException as error:
            said = str(error).replace(tracking.uri, tracking.shown).splitlines()[0]
            raise OSError(f"MLflow at {tracking.shown}: {said}") from None


def _summary(store: _Store, sweep: str) -> Any:
    return next((run for run in store.runs("summary") if _name(run) == sweep), None)


def _name(run: Any) -> str:
    """Return the name of the sweep whose summary a run is."""
    return str(run.info.run_name).removeprefix("sweep ")


def _fetch(store: _Store, run: str, folder: Path) -> None:
    copy_of = folder / _COPY_OF
    if copy_of.is_file() and copy_of.read_text(encoding="utf-8") == run:
        return
    folder.mkdir(exist_ok=True)
    for entry in store.client.list_artifacts(run):
        if entry.path in _FILES:
            store.client.download_artifacts(run, entry.path, str(folder))
    copy_of.write_text(run, encoding="utf-8")  # last: half a copy is fetched again


def _usual(runs: Path) -> str:
    return f"{_SQLITE}{runs.resolve() / DATABASE}"
