"""The only import of mlflow: a store that is ready, and the few things that are asked of it.

No call waits for ever: requests and locks have a limit, unless the environment gives another one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from dpsgd.experiment.mlflow_names import VIEW, shared_view
from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.memory import Memory

LIMITS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "PGCONNECT_TIMEOUT": "10",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_DISABLE_TELEMETRY": "true",  # a run tells nobody but its tracker
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
BUSY_SECONDS = 5.0
"""How long a locked database is waited for before anything is asked of it."""
LOCK_SECONDS = 60.0
"""How long another process is waited for that makes the same database, or copies a batch."""
SQLITE = "sqlite:///"
PAGE = 1000


@dataclass(frozen=True)
class Store:
    """An open store: MLflow's client, the id of the experiment, and what is known to be in it."""

    address: Address
    client: Any
    experiment_id: str
    memory: Memory

    def runs(self, query: str) -> Iterator[Any]:
        """Give the runs that fit ``query``, a page at a time."""
        token: str | None = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id], query, max_results=PAGE, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return


def connect(address: Address) -> Store:
    """Return the store at ``address``, with database and experiment made if they are not there.

    Several processes may do so at once: one of them makes the database, the others wait. Raises
    whatever MLflow does, OSError for a locked database and Timeout for a lock that is held.
    """
    client_of = _library()
    with locked(address, "mlflow-open"):
        if address.uri is None:
            _make_database(client_of, Path(address.store.removeprefix(SQLITE)))
        _check_sqlite(address.store)
        client = client_of(tracking_uri=address.store)
        found = client.get_experiment_by_name(address.experiment)
        if found is None:
            found = client.get_experiment(_made(client, address))
    one = (address.store, found.experiment_id, found.creation_time)
    return Store(address, client, found.experiment_id, Memory(address.locks, one))


@contextlib.contextmanager
def locked(address: Address, name: str) -> Iterator[None]:
    """Hold the lock ``name`` of a runs folder; raises Timeout if another process keeps it.

    Where a folder cannot be written to, or its file system has no locks, nothing is locked: copies
    that two made at once are told apart afterwards.
    """
    try:
        address.locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(address.locks / f"{name}.lock", timeout=LOCK_SECONDS)
        lock.acquire()
    except Timeout:
        raise
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


def metrics(rows: Sequence[tuple[str, float, int, int]]) -> list[Any]:
    """Return MLflow's metrics of (name, value, milliseconds, step)."""
    from mlflow.entities import Metric  # noqa: PLC0415

    return [Metric(*row) for row in rows]


def params(pairs: Sequence[tuple[str, str]]) -> list[Any]:
    """Return MLflow's params of (name, value)."""
    from mlflow.entities import Param  # noqa: PLC0415

    return [Param(*pair) for pair in pairs]


def _library() -> Any:
    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient  # noqa: PLC0415  (3 s, and only if it is used)
    for noisy in ("alembic", "mlflow.store.db.utils", "mlflow"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)  # what it says is raised as well
    return MlflowClient


def _make_database(client_of: Any, file: Path) -> None:
    """Make the database beside its place and move it there whole: one that was left half-made, by
    a process that was killed, could not be opened ever after.
    """
    if file.exists():
        return
    for left in file.parent.glob(f"{file.name}.*.new*"):
        left.unlink(missing_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    client_of(tracking_uri=f"{SQLITE}{new}").get_experiment("0")
    new.replace(file)


def _check_sqlite(store: str) -> None:
    """Raise OSError if the database is locked: MLflow would try for minutes."""
    file = Path(store.removeprefix(SQLITE))
    if not store.startswith(SQLITE) or not file.is_file():
        return
    database = sqlite3.connect(file, timeout=BUSY_SECONDS)
    try:
        database.execute("BEGIN IMMEDIATE")
        database.rollback()
    except sqlite3.Error as error:
        raise OSError(f"{file}: {error}") from None
    finally:
        database.close()


def _made(client: Any, address: Address) -> str:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        made = client.create_experiment(address.experiment, artifact_location=address.artifacts)
    except MlflowException:  # made by another machine in between, or not at all
        found = client.get_experiment_by_name(address.experiment)
        if found is None:
            raise
        return found.experiment_id
    client.set_experiment_tag(made, f"mlflow.sharedViewState.{VIEW}", shared_view())
    return made
