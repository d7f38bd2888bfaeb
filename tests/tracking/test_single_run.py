import subprocess
import sys
import time

import pytest
from stores import closed_port, locked_database, silent_server
from tracked_runs import cell, finished, status, tracker, unfinished, within

from dpsgd.experiment.track import client, single
from dpsgd.experiment.track.push import push
from dpsgd.experiment.tracker import NoTracker

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _no_child_is_left(monkeypatch):
    monkeypatch.setattr(single, "SECONDS", 120.0)
    yield
    single._end(now=True)


def run(folder, where):
    """What a run does with its tracker; returns what it shows."""
    unfinished(folder.parent, folder.name, "RUNNING")
    where.open(folder)
    finished(folder.parent, folder.name)
    return where.upload(folder, cell(folder.name))


def test_a_finished_run_is_there_and_the_next_is_copied_by_the_same_process(runs, held):
    first = run(runs / "a", tracker())
    served = single._Kept.child
    second = run(runs / "b", tracker())
    assert single._Kept.child is served
    assert first == second
    assert "mlflow ui" in first
    assert "viewStateShareKey=atlas" in first
    assert {k: [r.info.status for r in v] for k, v in held(runs).items()} == {
        "a": ["FINISHED"], "b": ["FINISHED"],
    }  # fmt: skip


def test_nothing_is_waited_for_before_training(tmp_path):
    began = time.monotonic()
    tracker().open(tmp_path / "runs/a")
    assert time.monotonic() - began < 1.0  # MLflow alone takes longer to import


@pytest.mark.parametrize("how", ["closed", "silent"])
def test_a_dead_server_delays_a_run_by_no_more_than_the_limit(
    tmp_path, caplog, monkeypatch, held, how
):
    monkeypatch.setattr(single, "SECONDS", 2.0)
    with silent_server() as silent:
        uri = f"http://127.0.0.1:{closed_port() if how == 'closed' else silent}"
        began = time.monotonic()
        assert run(tmp_path / "a", tracker(uri)) is None
        assert time.monotonic() - began < 10.0
    assert f"push later:\n  python -m dpsgd.track push {tmp_path} --uri {uri}" in caplog.text
    assert push(tmp_path, tracker()).copied == ("a",)
    assert held(tmp_path)["a"][0].info.status == "FINISHED"


def test_a_warning_says_what_the_server_said_and_no_password(tmp_path, caplog):
    uri = f"http://me:geheim@127.0.0.1:{closed_port()}"
    assert run(tmp_path / "a", tracker(uri)) is None
    assert "Connection refused" in caplog.text or "Max retries" in caplog.text
    assert "geheim" not in caplog.text


def test_a_locked_database_delays_a_run_by_no_more_than_the_limit(runs, held, caplog, monkeypatch):
    with locked_database(runs / "mlflow.db"):
        monkeypatch.setattr(single, "SECONDS", 2.0)
        began = time.monotonic()
        assert run(runs / "a", tracker()) is None
        assert time.monotonic() - began < 10.0
        monkeypatch.setattr(client, "BUSY_SECONDS", 0.1)
        pushed = push(runs, tracker())
        assert "locked" in pushed.error
        assert pushed.left == ("a",)
    assert "push later" in caplog.text
    assert push(runs, tracker()).copied == ("a",)
    assert len(held(runs)["a"]) == 1


@pytest.mark.parametrize("how", ["raises", "killed"])
def test_a_run_that_dies_is_shown_as_dead(runs, held, how):
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
from pathlib import Path
from tracked_runs import status, tracker, unfinished
folder = unfinished({str(runs)!r}, "a", "RUNNING")
tracker().open(folder)
if {how!r} == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
status(folder, "FAILED", stopped_by="ValueError")
raise ValueError
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
    assert within(60, lambda: "a" in held(runs))
    # Its process copies it while we look.
    assert within(20, lambda: held(runs)["a"][0].info.status != "RUNNING")
    assert held(runs)["a"][0].info.status == {"raises": "FAILED", "killed": "KILLED"}[how]


def test_a_run_that_still_trains_is_not_shown_as_dead(runs, held):
    where = tracker()
    folder = unfinished(runs, "a", "RUNNING")
    where.open(folder)
    single._end()  # as when another store is opened
    status(folder, "RUNNING")
    time.sleep(4)
    assert held(runs) == {}


def test_a_run_that_raised_is_shown_though_its_process_goes_on(runs, held):
    folder = unfinished(runs, "a", "RUNNING")
    tracker().open(folder)
    status(folder, "FAILED", stopped_by="ValueError")
    assert within(90, lambda: [r.info.status for r in held(runs).get("a", [])] == ["FAILED"])


def test_no_tracker_leaves_nothing(tmp_path):
    nothing = NoTracker("none")
    nothing.open(tmp_path / "a")
    assert nothing.upload(tmp_path / "a", cell()) is None
    assert not list(tmp_path.iterdir())


def test_who_trains_never_imports_mlflow():
    code = "import sys, dpsgd.experiment.cell; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
