"""Claims: one process a run, and a process that is gone holds nothing."""

import dataclasses
import datetime
import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from composed import composer

from dpsgd.errors import BusyError
from dpsgd.experiment import cell as running
from dpsgd.experiment import claim as claiming
from dpsgd.experiment import locks
from dpsgd.experiment.claim import claim
from dpsgd.experiment.holder import (
    CLAIMS,
    SILENT,
    claim_file,
    read_holder,
    state_of,
    text_of,
    this_process,
)
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell

ROOT = Path(__file__).resolve().parents[2]
KEY = "0123456789abcdef"
HOLD = (
    "import sys, time; from pathlib import Path; from dpsgd.experiment.claim import claim\n"
    "with claim(Path(sys.argv[1])):\n"
    "    print('held', flush=True); time.sleep(600)"
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / KEY


@pytest.fixture(params=["locks", "no locks"])
def anywhere(request, monkeypatch):
    """A file system with locks, and one without."""
    if request.param == "no locks":
        without_locks(monkeypatch)


def without_locks(monkeypatch):
    def refuse(self):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.FileLock, "acquire", refuse)


def claims(folder):
    return sorted(file.name for file in (folder.parent / CLAIMS).iterdir())


def planted(folder, silent_for=0.0, **changes):
    """A claim that another left, touched so long ago."""
    holder = dataclasses.replace(this_process(), **changes)
    file = claim_file(folder)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text_of(holder))
    then = time.time() - silent_for
    os.utime(file, (then, then))
    return holder


def elsewhere(folder, silent_for):
    return planted(folder, silent_for, host="elsewhere", kernel="another", pid=1)


def state(folder, **status):
    folder.mkdir(exist_ok=True)
    (folder / "status.json").write_text(json.dumps(status))


def ago(seconds):
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return then.isoformat(timespec="seconds")


@pytest.fixture
def holding(folder):
    """Another process, which has the run."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


@pytest.mark.usefixtures("anywhere")
def test_a_run_is_had_once_and_given_back(folder):
    with claim(folder):
        with pytest.raises(BusyError, match=f"process {os.getpid()} on"), claim(folder):
            pass
        with claim(folder.with_name("f" * 16)):
            pass
    assert claims(folder) == []
    with claim(folder):
        pass


@pytest.mark.usefixtures("anywhere")
def test_it_is_given_back_when_its_run_fails(folder):
    with pytest.raises(ZeroDivisionError), claim(folder):
        raise ZeroDivisionError
    assert claims(folder) == []


def test_another_process_is_named_with_its_host_and_since_when(folder, holding):
    with pytest.raises(BusyError) as error, claim(folder):
        pass
    assert error.value.pid == holding.pid
    assert error.value.host == read_holder(claim_file(folder)).host
    assert error.value.since[:4].isdigit()
    text = str(error.value)
    assert len(text.splitlines()) == 1
    assert str(holding.pid) in text


@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGTERM])
def test_the_run_of_a_process_that_was_killed_is_taken_over(folder, holding, caplog, ends):
    state(folder, status="RUNNING", pid=holding.pid, host="any", started_at="then")
    assert state_of(folder) == "RUNNING"
    holding.send_signal(ends)
    holding.wait()
    assert state_of(folder) == "KILLED"
    with claim(folder):
        assert read_holder(claim_file(folder)).pid == os.getpid()
    (line,) = caplog.messages
    assert f"taken over from process {holding.pid}" in line
    assert len(line.splitlines()) == 1
    assert claims(folder) == []


def test_one_that_ended_and_was_not_waited_for_is_gone(folder, holding):
    holding.kill()
    deadline = time.monotonic() + 30
    while read_holder(claim_file(folder)).lives(0.0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with claim(folder):
        pass


@pytest.mark.usefixtures("anywhere")
def test_a_pid_that_is_given_again_is_another_process(folder, caplog):
    planted(folder, ticks="1")
    state(folder, status="RUNNING", pid=os.getpid())
    assert state_of(folder) == "KILLED"
    with claim(folder):
        pass
    assert "taken over" in caplog.text


def test_a_living_process_has_its_run_whatever_its_sign_of_life(folder, monkeypatch):
    without_locks(monkeypatch)
    planted(folder, silent_for=10 * SILENT)
    with pytest.raises(BusyError), claim(folder):
        pass


@pytest.mark.usefixtures("anywhere")
def test_another_host_has_its_run_until_it_has_been_silent(folder, caplog):
    state(folder, status="RUNNING", pid=1, host="elsewhere")
    elsewhere(folder, silent_for=SILENT - 60)
    assert state_of(folder) == "RUNNING"
    with pytest.raises(BusyError, match="process 1 on elsewhere"), claim(folder):
        pass
    elsewhere(folder, silent_for=SILENT + 60)
    assert state_of(folder) == "KILLED"
    with claim(folder):
        pass
    assert "taken over from process 1 on elsewhere" in caplog.text


def test_of_another_container_of_this_machine_the_lock_decides(folder, monkeypatch):
    planted(folder, visible="other processes", pid=1, ticks="1")
    with claim(folder):
        pass
    planted(folder, visible="other processes", pid=1, ticks="1")
    without_locks(monkeypatch)
    with pytest.raises(BusyError), claim(folder):
        pass


@pytest.mark.parametrize("host", ["elsewhere", None])
def test_without_a_claim_what_the_status_says_counts(folder, host, caplog):
    here = this_process().host
    said = {"status": "RUNNING", "pid": 2**22 + 1, "host": host or here, "started_at": "then"}
    state(folder, **said, heartbeat=ago(10))
    assert state_of(folder) == ("RUNNING" if host else "KILLED")
    if host:
        with pytest.raises(BusyError, match="elsewhere"), claim(folder):
            pass
    state(folder, **said, heartbeat=ago(SILENT + 10))
    assert state_of(folder) == "KILLED"
    with claim(folder):
        pass
    assert "taken over" in caplog.text


@pytest.mark.parametrize("status", ["FINISHED", "FAILED", "KILLED"])
def test_a_run_that_ended_is_free_and_called_what_it_is(folder, status, caplog):
    state(folder, status=status, pid=os.getpid(), host="elsewhere", heartbeat=ago(1))
    assert state_of(folder) == status
    with claim(folder):
        pass
    assert caplog.messages == []


def test_no_status_is_unknown(folder):
    assert state_of(folder) == "unknown"
    state(folder)
    assert state_of(folder) == "unknown"


def test_signs_of_life_are_given_while_nothing_else_happens(folder, monkeypatch):
    monkeypatch.setattr(claiming, "BEAT", 0.02)
    with claim(folder):
        file = claim_file(folder)
        os.utime(file, (0, 0))
        deadline = time.monotonic() + 30
        while file.stat().st_mtime < time.time() - 60:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_a_torn_claim_holds_nothing_for_long(folder, content):
    planted(folder)
    file = claim_file(folder)
    file.write_text(content)
    os.utime(file, (0, 0))
    with claim(folder):
        assert read_holder(file).pid == os.getpid()
    assert claims(folder) == []


def test_who_was_taken_for_dead_is_told_before_it_writes_its_end(folder):
    with claim(folder) as claimed:
        claimed.check()
        elsewhere(folder, silent_for=0)
        with pytest.raises(BusyError, match="process 1 on elsewhere"):
            claimed.check()
    assert read_holder(claim_file(folder)).host == "elsewhere"  # and takes nothing from it


def test_so_is_one_whose_run_was_taken_over_and_let_go_again(folder):
    with claim(folder) as claimed:
        claim_file(folder).unlink()
        with pytest.raises(BusyError):
            claimed.check()


def test_who_was_taken_for_dead_writes_no_sign_of_life_over_what_another_left(
    tmp_path, monkeypatch
):
    cell = read_cell(composer()(["data=digits", "model=logistic", "tracker=none", "steps=3"]))
    monkeypatch.setattr(running, "BEAT", 0.0)
    done = {"status": "FINISHED", "by": "another"}

    def step(number, loss, clip_fraction):
        (run,) = tmp_path.glob("*/status.json")
        if number == 2:
            claim_file(run.parent).unlink()
            run.write_text(json.dumps(done))

    with pytest.raises(BusyError):
        running.run_cell(prepare(cell), tmp_path, lambda plan: step)
    (run,) = tmp_path.glob("*/status.json")
    assert json.loads(run.read_text()) == done


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("stale", [False, True])
def test_of_many_at_once_one_has_it(folder, stale):
    if stale:
        elsewhere(folder, silent_for=2 * SILENT)
    together, over = threading.Barrier(6), threading.Event()
    found = []

    def attempt():
        together.wait()
        try:
            with claim(folder):
                found.append("has it")
                over.wait(30)
        except BusyError:
            found.append("busy")

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while len(found) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    over.set()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["busy"] * 5 + ["has it"]


def test_an_error_of_another_process_says_the_same():
    error = BusyError("runs/a", 3, "there", "2026-01-02")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(again) == str(error)
    assert again.pid == 3


def test_a_run_that_is_moved_away_as_it_is_looked_at_is_not_trained_without_a_claim(
    tmp_path, monkeypatch
):
    looks = iter([{"label": "as it was"}, None])
    monkeypatch.setattr(running, "finished", lambda folder: next(looks))
    monkeypatch.setattr(running, "solve", lambda *_: pytest.fail("it is trained"))
    cell = read_cell(composer()(["data=digits", "model=logistic", "tracker=none", "steps=2"]))
    outcome = running.run_cell(prepare(cell), tmp_path, lambda plan: lambda *step: None)
    assert outcome.repeated
    assert outcome.cell == {"label": "as it was"}
