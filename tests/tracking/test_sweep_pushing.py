import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stores import closed_port, locked_database, silent_server
from tracked_runs import cell, finished, status, tracker, unfinished, within

from dpsgd.experiment.processes import is_running
from dpsgd.experiment.track import pushing as holding
from dpsgd.experiment.track.pushing import pushing
from dpsgd.experiment.tracker import NoTracker

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(holding, "AT_THE_END", 120.0)


@pytest.mark.usefixtures("patient")
def test_cells_are_copied_as_they_end_and_the_sweep_is_summed_up(runs, held):
    keys, told = ["a", "b", "bad", "never"], []
    with pushing(tracker(), runs, "ours", keys, told.append):
        began = unfinished(runs, "a", "RUNNING")
        finished(runs, "a")
        assert within(90, lambda: "a" in held(runs))
        unfinished(runs, "bad", traceback="ValueError: of ours")
        finished(runs, "b")
        status(began, "FINISHED", stopped_by="steps")
    found = held(runs)
    assert {key: [run.info.status for run in copies] for key, copies in found.items()} == {
        "a": ["FINISHED"], "b": ["FINISHED"], "bad": ["FAILED"],
    }  # fmt: skip
    assert all(run.data.tags["sweep.ours"] == "1" for (run,) in found.values())
    (summary,) = held(runs, query="tags.kind = 'summary'")[""]
    rows = json.loads(
        (runs / "mlartifacts" / summary.info.run_id / "artifacts/cells.json").read_text()
    )
    assert [row["status"] for row in rows] == ["FINISHED", "FINISHED", "FAILED", "MISSING"]
    (line,) = told
    assert "mlflow ui" in line


@pytest.mark.usefixtures("patient")
def test_a_sweep_that_raises_says_so_itself_and_its_cells_are_copied(runs, held, monkeypatch):
    monkeypatch.setattr(holding, "INTERRUPTED", 120.0)

    def broken():
        with pushing(tracker(), runs, "ours", ["a"], lambda line: None):
            finished(runs, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert len(held(runs)["a"]) == 1


@pytest.mark.parametrize("how", ["closed", "silent", "locked"])
def test_a_store_that_does_not_answer_delays_a_sweep_by_no_more_than_the_limit(
    runs, monkeypatch, how
):
    monkeypatch.setattr(holding, "AT_THE_END", 1.0)
    told = []
    with silent_server() as silent, locked_database(runs / "mlflow.db"):
        port = closed_port() if how == "closed" else silent
        uri = None if how == "locked" else f"http://127.0.0.1:{port}"
        began = time.monotonic()
        with pushing(tracker(uri), runs, "ours", ["a", "b"], told.append):
            assert time.monotonic() - began < 1.0
            finished(runs, "a")
        assert time.monotonic() - began < 15.0
    (line,) = told
    assert "not there yet" in line
    assert f"push later:\n  python -m dpsgd.track push {runs}" in line


def test_a_sweep_that_is_killed_takes_its_pusher_along(runs):
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from tracked_runs import tracker
from dpsgd.experiment.track import pushing
class Told(pushing.Child):
    def __init__(self, *given):
        super().__init__(*given)
        print(self._process.pid, flush=True)
pushing.Child = Told
with pushing.pushing(tracker(), Path({str(runs)!r}), "ours", ["a"]):
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as sweep:
        pusher = int(sweep.stdout.readline())
        assert is_running(pusher)
        os.kill(sweep.pid, signal.SIGKILL)
    assert within(60, lambda: not is_running(pusher))


def test_a_tracker_of_ones_own_is_handed_what_is_finished(tmp_path):
    handed = []

    class Own:
        name = "own"

        def open(self, folder):
            raise AssertionError

        def upload(self, folder, values):
            handed.append((folder.name, values["label"]))
            return "over there"

    told = []
    with pushing(Own(), tmp_path, "ours", ["a", "bad"], told.append):
        finished(tmp_path, "a")
        unfinished(tmp_path, "bad")
    assert handed == [("a", cell()["label"])]
    assert told == ["over there"]


def test_without_a_tracker_nothing_is_left(tmp_path):
    with pushing(NoTracker("none"), tmp_path, "ours", ["a"]):
        pass
    assert not list(tmp_path.iterdir())
