"""Two real processes that want one cell, and one that is killed at it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.holder import state_of
from dpsgd.experiment.sweep.index import Index
from dpsgd.experiment.verify import verify
from dpsgd.runs import main

ROOT = Path(__file__).resolve().parents[2]
SLOW = ("debug=fast", "tracker=none", "mechanism=neither", "steps=1000", "telemetry=off")
"""A cell that trains for seconds: long enough to be met, and to be killed."""


def start(runs):
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return subprocess.Popen(
        [sys.executable, "-m", "dpsgd.run", *SLOW, f"runs_dir={runs}"],
        env=env, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def running(runs, process):
    """The folder of the cell that a process trains, once it does."""
    deadline = time.monotonic() + 300
    while not (found := list(runs.glob(f"*/{schema.STATUS_FILE}"))):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0].parent


@pytest.mark.slow
def test_while_one_has_a_cell_another_is_told_so_and_after_its_death_goes_on(tmp_path, capsys):
    first = start(tmp_path)
    folder = running(tmp_path, first)
    first.send_signal(signal.SIGSTOP)  # it lives, and waits for as long as this test takes
    assert state_of(folder) == "RUNNING"
    second = start(tmp_path)
    _, said = second.communicate()
    assert second.returncode == 75
    (line,) = said.splitlines()
    assert f"{folder} is in use: process {first.pid} on" in line
    with pytest.raises(SystemExit) as error:
        main(["rm", folder.name, "--yes", f"runs_dir={tmp_path}"])
    assert error.value.code == 75
    assert Index(tmp_path).finished() == {}

    first.kill()
    first.communicate()
    assert read_json(folder / schema.STATUS_FILE)["status"] == "RUNNING"
    main(["list", f"runs_dir={tmp_path}"])
    assert "KILLED at step" in capsys.readouterr().out
    third = start(tmp_path)
    _, said = third.communicate()
    assert third.returncode == 0, said
    (line,) = [line for line in said.splitlines() if "taken over" in line]
    assert f"process {first.pid}" in line
    assert read_json(folder / schema.STATUS_FILE)["attempts"] == 2
    assert Index(tmp_path).finished().keys() == {folder.name}
    assert verify(folder).holds


@pytest.mark.slow
def test_of_two_at_once_one_trains(tmp_path):
    both = [start(tmp_path), start(tmp_path)]
    said = [process.communicate() for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 75], [0, 0]), said  # [0, 0]: the other came when it was finished
    ((key, row),) = Index(tmp_path).finished().items()
    begun = (tmp_path / schema.INDEX_FILE).read_text().count('"RUNNING"')
    assert begun == 1
    assert row.steps == 1000
    assert read_json(tmp_path / key / schema.STATUS_FILE)["attempts"] == 1
