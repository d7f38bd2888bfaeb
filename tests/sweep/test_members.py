"""A sweep's file: which cells it has, whoever adds to it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpsgd.errors import UnwritableError
from dpsgd.experiment.sweep import members
from dpsgd.experiment.sweep.index import run_keys
from dpsgd.experiment.sweep.members import (
    add_to_sweep,
    read_sweep,
    sweep_file,
    sweep_name,
    sweep_names,
)

ROOT = Path(__file__).resolve().parents[2]
ASKED = ["clip.norm=0.3,1", "seed=0,1"]


def test_what_is_written_is_read(tmp_path):
    made = add_to_sweep(tmp_path, "atlas", ASKED, ["a", "b"], ["c"])
    assert read_sweep(tmp_path, "atlas") == made
    assert (made.name, made.keys, made.baselines) == ("atlas", ("a", "b"), ("c",))
    assert made.asked == (tuple(ASKED),)
    assert sweep_names(tmp_path) == ["atlas"]
    assert run_keys(tmp_path) == []


def test_adding_a_value_adds_its_cells_and_loses_none(tmp_path):
    first = add_to_sweep(tmp_path, "atlas", ASKED, ["a", "b"], ["c"])
    more = add_to_sweep(tmp_path, "atlas", [*ASKED, "x=1"], ["d", "a"], ["c", "e"])
    assert more.keys == ("a", "b", "d")
    assert more.baselines == ("c", "e")
    assert len(more.asked) == 2
    assert more.made_at == first.made_at


def test_asked_again_nothing_is_written(tmp_path):
    add_to_sweep(tmp_path, "atlas", ASKED, ["a"], [])
    before = sweep_file(tmp_path, "atlas").stat()
    add_to_sweep(tmp_path, "atlas", ASKED, ["a"], [])
    after = sweep_file(tmp_path, "atlas").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_cell_may_belong_to_several(tmp_path):
    for name in ("atlas", "tail"):
        add_to_sweep(tmp_path, name, ASKED, ["a"], ["c"])
    assert sweep_names(tmp_path) == ["atlas", "tail"]


def test_no_file_says_where_the_runs_lie(tmp_path):
    given = [*ASKED, f"runs_dir={tmp_path}", f"+hydra.run.dir={tmp_path}", "tracker=none",
             f"tracker.uri=http://me:secret@{tmp_path}"]  # fmt: skip
    made = add_to_sweep(tmp_path / "one", sweep_name(None, given), given, ["a"], [])
    text = sweep_file(tmp_path / "one", made.name).read_text()
    assert str(tmp_path) not in text
    assert "secret" not in text
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert read_sweep(tmp_path / "two", made.name) == made


def test_a_multirun_is_named_by_its_cells_and_not_by_the_place(tmp_path):
    name = sweep_name(None, ASKED)
    assert name == sweep_name(None, [*reversed(ASKED), f"runs_dir={tmp_path}", "tracker=none"])
    assert name == sweep_name("", ASKED)
    assert name != sweep_name(None, ["clip.norm=0.3,1,3", "seed=0,1"])
    assert name.startswith("multirun-")


@pytest.mark.parametrize("name", ["mine/atlas", "../atlas", ".atlas", "at las", "ätlas"])
def test_no_name_leaves_its_folder_and_no_two_meet(tmp_path, name):
    legal = sweep_name(name, [])
    assert legal != sweep_name("atlas", [])
    assert legal != sweep_name(f"{name}2", [])
    add_to_sweep(tmp_path, legal, [], ["a"], [])
    assert sweep_names(tmp_path) == [legal]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys": ["a"]}'])
def test_a_torn_file_is_none_and_is_made_again(tmp_path, content):
    add_to_sweep(tmp_path, "atlas", ASKED, ["a"], [])
    sweep_file(tmp_path, "atlas").write_text(content)
    assert read_sweep(tmp_path, "atlas") is None
    assert add_to_sweep(tmp_path, "atlas", ASKED, ["a"], []).keys == ("a",)


def test_what_processes_add_at_once_is_kept_of_all(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from dpsgd.experiment.sweep.members import add_to_sweep\n"
        "for i in range(15):\n"
        "    add_to_sweep(Path(sys.argv[1]), 'atlas', [], [f'{sys.argv[2]}{i}'], [])"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], env=env)
        for name in "ab"
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    sweep = read_sweep(tmp_path, "atlas")
    assert sweep is not None
    assert set(sweep.keys) == {f"{name}{i}" for name in "ab" for i in range(15)}
    assert list((tmp_path / ".claims").iterdir()) == []


def test_a_full_disk_keeps_what_was_there(tmp_path, monkeypatch):
    add_to_sweep(tmp_path, "atlas", ASKED, ["a"], [])

    def full(file, value):
        raise UnwritableError(28, "No space left on device", str(file))

    monkeypatch.setattr(members, "write_json", full)
    with pytest.raises(UnwritableError, match=r"atlas.json: cannot be written: No space"):
        add_to_sweep(tmp_path, "atlas", ASKED, ["b"], [])
    found = read_sweep(tmp_path, "atlas")
    assert found is not None
    assert found.keys == ("a",)
