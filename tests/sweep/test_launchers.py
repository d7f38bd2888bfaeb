"""Under every launcher a cell that fails, leaves or is killed costs no other cell anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEALTHY, FAULTS = ("well", "fine"), ("raise", "exit", "kill")
ORDER = "well,raise,kill,exit,fine"
TINY = ("debug=fast", "tracker=none", "mechanism=neither", "telemetry=off", "steps=1")


def sweep(folder, *arguments, env=None):
    """Run a sweep over cells of the planted model, with what they are told."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "dpsgd.run", "-m", "--config-dir", str(HERE / "conf"), *TINY,
        "model=faulty", f"model.flag={folder / 'flag'}", f"runs_dir={folder / 'runs'}", *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command, env=environment | (env or {}), cwd=folder, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


def statuses(folder):
    """Return what each cell's status says, by the fault that it was told."""
    found = {}
    for file in sorted(folder.glob("runs/*/config.yaml")):  # written after the first status
        status = json.loads((file.parent / "status.json").read_text(encoding="utf-8"))
        config = file.read_text(encoding="utf-8")
        fault = config.split("fault: ")[1].split()[0]
        found[fault] = status | {"folder": file.parent}
    return found


@pytest.mark.parametrize("launcher", ["local", "joblib_local", "ray_local", "slurm_local"])
def test_what_befalls_one_cell_costs_no_other(launcher, tmp_path):
    (tmp_path / "flag").touch()
    first = sweep(tmp_path, f"hydra/launcher={launcher}", f"model.fault={ORDER}")
    assert first.returncode == 1, first.stderr

    found = statuses(tmp_path)
    assert {fault: status["status"] for fault, status in found.items()} == {
        "well": "FINISHED", "fine": "FINISHED",
        "raise": "FAILED", "exit": "KILLED", "kill": "KILLED",
    }  # fmt: skip
    assert found["raise"]["traceback"].rstrip().endswith("with a second line")
    assert found["kill"]["stopped_by"] == "SIGKILL"
    assert "planted" in (found["raise"]["folder"] / "log.txt").read_text(encoding="utf-8")

    table = first.stderr.split("3 of 5 cells did not finish:")[1]
    for fault, said in zip(
        FAULTS, ("ValueError: planted", "SystemExit: 3", "SIGKILL"), strict=True
    ):
        (line,) = [row for row in table.splitlines() if row.startswith(f"model.fault={fault}")]
        assert said in line
        assert line.rstrip().endswith(found[fault]["folder"].name)
    rows = table.split("A folder's")[0].splitlines()
    assert max(map(len, rows)) <= 80

    (tmp_path / "flag").unlink()
    finished = {fault: found[fault]["folder"] / "cell.json" for fault in HEALTHY}
    before = {fault: file.stat().st_mtime_ns for fault, file in finished.items()}
    # Under another launcher, which asks the same folder what is missing.
    second = sweep(tmp_path, "hydra/launcher=local", f"model.fault={ORDER}")
    assert second.returncode == 0, second.stderr
    assert "2 finished before, 3 to train" in second.stdout
    assert {status["status"] for status in statuses(tmp_path).values()} == {"FINISHED"}
    assert {fault: file.stat().st_mtime_ns for fault, file in finished.items()} == before
