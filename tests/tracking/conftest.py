import shutil
import warnings

import pytest
from tracked_runs import tracker

from dpsgd.experiment.track.client import connect


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A database with its tables, which take seconds to make, and no experiment of ours."""
    runs = tmp_path_factory.mktemp("empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connect(tracker(experiment="other").address(runs))
    return runs / "mlflow.db"


@pytest.fixture
def runs(tmp_path, empty_database):
    """A folder of runs with a database that is made."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    return folder


@pytest.fixture
def held():
    """What ``held(runs)`` returns: the runs in its store, by run key."""

    def of(runs, uri=None, query="tags.kind = 'cell'"):
        store = connect(tracker(uri).address(runs))
        found = {}
        for run in store.runs(query):
            found.setdefault(run.data.tags.get("run_key", ""), []).append(run)
        return found

    return of
