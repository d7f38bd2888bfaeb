"""Runs folders that are full, read-only, moved or of another version: one clear line, and nothing
that was finished is lost.
"""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis import schema
from analysis.cells import read_cells
from dpsgd import ConfigError, train
from dpsgd.errors import UnwritableError
from dpsgd.experiment import identity, record
from dpsgd.experiment.ledger import content
from dpsgd.experiment.record import finished
from dpsgd.experiment.sweep.index import Index
from dpsgd.experiment.verify import verify
from dpsgd.runs import main

ROOT = Path(__file__).resolve().parents[2]
TINY = {"debug": "fast", "tracker": "none", "mechanism": "neither"}
WRITTEN = (
    schema.CONFIG_FILE, schema.LEDGER_FILE, schema.LEDGER_PAGE, schema.TELEMETRY_FILE,
    schema.EVALUATION_FILE, schema.PREDICTIONS_FILE, schema.MODEL_FILE, schema.CELL_FILE,
    schema.EVIDENCE_FILE, schema.STATUS_FILE,
)  # fmt: skip


def tiny(folder, **settings):
    return train(TINY | {"runs_dir": str(folder)} | settings)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A runs folder with one finished cell, to be copied."""
    folder = tmp_path_factory.mktemp("kept") / "runs"
    return tiny(folder, seed=7).folder


@pytest.fixture
def runs(kept, tmp_path):
    shutil.copytree(kept.parent, tmp_path / "runs")
    return tmp_path / "runs"


def fill(monkeypatch, name):
    """Let the disk be full when ``name`` is put in place, of whichever cell; of a status the last.

    Returns what frees it.
    """
    replace = Path.replace

    def full(temporary, target):
        ends = target.name != schema.STATUS_FILE or "FINISHED" in temporary.read_text()
        if target.name == name and ends:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(temporary, target)

    monkeypatch.setattr(Path, "replace", full)
    return lambda: monkeypatch.setattr(Path, "replace", replace)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_full_disk_is_said_in_one_line_and_costs_no_other_cell(runs, kept, monkeypatch, name):
    free = fill(monkeypatch, name)
    with pytest.raises(UnwritableError) as error:
        tiny(runs)
    text = str(error.value)
    assert f"{name}: cannot be written: No space left on device" in text
    assert "make room" in text
    assert len(text.splitlines()) == 1
    (folder,) = [f for f in runs.iterdir() if f.name in text]
    assert finished(folder) is None
    assert list(folder.glob(".*")) == []
    status = json.loads((folder / schema.STATUS_FILE).read_text())
    assert status["status"] == "FAILED"
    assert Index(runs).finished().keys() == {kept.name}
    assert tiny(runs, seed=7).folder.name == kept.name  # what was finished is still to be had
    free()
    again = tiny(runs)
    assert again.folder == folder
    assert verify(folder).holds
    assert Index(runs).finished().keys() == {kept.name, folder.name}


def test_a_disk_that_is_full_to_the_end_leaves_a_run_that_can_be_taken_up(runs, monkeypatch):
    with monkeypatch.context() as patch:
        fill(patch, schema.CELL_FILE)
        written = record.write_json

        def write(file, value):
            if file.name == schema.STATUS_FILE and value["status"] == "FAILED":
                raise UnwritableError(errno.ENOSPC, "No space left on device", str(file))
            written(file, value)

        patch.setattr(record, "write_json", write)
        with pytest.raises(UnwritableError, match=r"cell\.json: cannot be written"):
            tiny(runs)
    assert len(list(runs.glob("*/status.json"))) == 2
    assert tiny(runs).cell["status"] == "FINISHED"


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))


def command(folder, *arguments, **how):
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    words = [f"{key}={value}" for key, value in TINY.items()]
    return subprocess.run(
        [sys.executable, "-m", "dpsgd.run", *words, *arguments, f"runs_dir={folder}"],
        env=env, cwd=ROOT, capture_output=True, text=True, check=False, **how,
    )  # fmt: skip


def test_a_system_that_refuses_a_write_halfway_leaves_no_half_of_a_file(runs, kept):
    outcome = command(runs, preexec_fn=limited)
    assert outcome.returncode == 1, outcome.stderr
    (line,) = outcome.stderr.splitlines()
    assert ": cannot be written: File too large" in line
    assert "Finished runs are kept" in line
    assert list(runs.glob("*/.*")) == []
    assert Index(runs).finished().keys() == {kept.name}


def test_a_folder_that_cannot_be_made_is_one_line():
    outcome = command("/proc/nothing")
    assert outcome.returncode == 2
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("runs_dir=/proc/nothing: cannot be written to")
    with pytest.raises(ConfigError, match=r"runs_dir=/proc/nothing: cannot be written to"):
        tiny("/proc/nothing")


def test_a_moved_folder_has_its_runs(runs, kept, tmp_path, capsys):
    before = (runs / kept.name / schema.STATUS_FILE).read_text()
    moved = runs.rename(tmp_path / "moved")
    again = tiny(moved, seed=7)
    assert again.folder == moved / kept.name
    assert (again.folder / schema.STATUS_FILE).read_text() == before
    assert verify(again.folder).holds
    main(["list", f"runs_dir={moved}"])
    assert kept.name in capsys.readouterr().out
    for file in (moved / schema.INDEX_FILE, again.folder / schema.CELL_FILE):
        assert str(kept.parent) not in file.read_text()


def test_runs_of_another_version_are_kept_listed_and_drawn_and_never_the_same(
    runs, kept, monkeypatch, capsys
):
    main(["list", f"runs_dir={runs}"])
    assert "another version" not in capsys.readouterr().out
    for module in (identity, record, content):
        monkeypatch.setattr(module, "RESULT_VERSION", 99)
    monkeypatch.setattr("dpsgd.runs.RESULT_VERSION", 99)
    other = tiny(runs, seed=7)
    assert other.folder.name != kept.name
    assert other.cell["result_version"] == "99"
    main(["list", f"runs_dir={runs}"])
    out = capsys.readouterr().out
    assert {kept.name, other.folder.name} <= set(out.split())
    (line,) = [line for line in out.splitlines() if "another version" in line]
    assert line.startswith("1 run here is")
    drawn = read_cells(runs)
    assert set(drawn.table["run_key"]) == {kept.name, other.folder.name}
    assert drawn.left_out == ()
