"""How a sweep ends: by the command it prints, on Ctrl-C, when a worker dies, and when told to."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from test_launchers import HERE, ROOT, TINY, statuses, sweep

from dpsgd.experiment.processes import is_running


def test_stopping_on_failure_starts_no_further_cell_and_the_printed_command_runs_the_rest(tmp_path):
    (tmp_path / "flag").touch()
    told = ("hydra/launcher=local", "on_failure=stop", "model.fault=well,raise,fine")
    ended = sweep(tmp_path, *told)
    assert ended.returncode == 1
    assert set(statuses(tmp_path)) == {"well", "raise"}
    assert "2 of 3 cells did not finish" in ended.stderr
    assert "stopped before it began" in ended.stderr

    (tmp_path / "flag").unlink()
    words = shlex.split(ended.stderr.strip().splitlines()[-1])
    assert words[:4] == ["python", "-m", "dpsgd.run", "-m"]
    again = sweep(tmp_path, *told, words[-1])
    assert again.returncode == 0, again.stderr
    assert "0 finished before, 2 to train" in again.stdout


def test_a_launcher_that_is_not_there_is_said_in_one_line(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if 'ray_launcher' in name else find(name, *a)\n"
    )
    path = os.pathsep.join(map(str, (hidden, ROOT, HERE)))
    ended = sweep(
        tmp_path, "hydra/launcher=ray_local", "model.fault=well", env={"PYTHONPATH": path}
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        "hydra/launcher=ray_local: is not installed: pip install 'clipping-atlas[ray]'"
    )


@pytest.fixture
def running(tmp_path):
    """A sweep of three cells whose first sleeps, two at a time; its process, and that of the cell
    that sleeps.
    """
    (tmp_path / "flag").touch()
    environment = os.environ | {
        "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}", "COLUMNS": "80",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "dpsgd.run", "-m", "--config-dir", str(HERE / "conf"), *TINY,
        "model=faulty", f"model.flag={tmp_path / 'flag'}", f"runs_dir={tmp_path / 'runs'}",
        "model.fault=sleep,well,fine", "hydra.launcher.n_jobs=2",
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            wait_for(lambda: only_one_sleeps(tmp_path))
            yield process, tmp_path
        finally:
            process.kill()


def test_ctrl_c_ends_the_running_cells_in_order(running):
    process, folder = running
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    asleep = statuses(folder)["sleep"]
    assert (asleep["status"], asleep["stopped_by"]) == ("KILLED", "SIGTERM")
    assert "1 of 3 cells did not finish" in said
    assert "ended with the sweep" in said
    assert not is_running(asleep["pid"])


def test_a_worker_that_is_killed_is_replaced_and_its_cell_runs_again(running):
    process, folder = running
    (folder / "flag").unlink()
    child = statuses(folder)["sleep"]["pid"]
    os.kill(parent(parent(child)), signal.SIGKILL)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "1 of 3 cells are launched again" in said
    asleep = statuses(folder)["sleep"]
    assert (asleep["status"], asleep["attempts"]) == ("FINISHED", 2)


def test_nothing_outlives_the_sweep_that_is_killed(running):
    process, folder = running
    child = statuses(folder)["sleep"]["pid"]
    worker = parent(parent(child))
    process.kill()
    wait_for(lambda: not is_running(child) and not is_running(worker))
    assert statuses(folder)["sleep"]["status"] == "KILLED"


def only_one_sleeps(folder):
    found = {fault: status["status"] for fault, status in statuses(folder).items()}
    return found == {"sleep": "RUNNING", "well": "FINISHED", "fine": "FINISHED"}


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def wait_for(holds, seconds=240):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)
