"""The index of a runs folder: what it answers is what the folders say, whatever became of it."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from planted_runs import RUN_KEYS, plant

from analysis.schema import INDEX_FILE
from dpsgd.experiment.sweep import index as indexing
from dpsgd.experiment.sweep.index import Index, older, older_line
from dpsgd.experiment.sweep.rows import line_of, read_row, row_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for key in RUN_KEYS:
        plant(folder, key)
    return folder


@pytest.fixture
def opened(monkeypatch):
    """The run folders that were opened."""
    seen = []

    def read(folder):
        seen.append(folder.name)
        return read_row(folder)

    monkeypatch.setattr(indexing, "read_row", read)
    return seen


def said(runs):
    """What the folders say, without an index."""
    return {key: read_row(runs / key) for key in RUN_KEYS if (runs / key).exists()}


def test_a_row_holds_what_its_folder_says(runs):
    row = Index(runs).finished()[RUN_KEYS[0]]
    assert (row.run_key, row.status, row.label) == (RUN_KEYS[0], "FINISHED", "flat C=1 ε=3 s1")
    assert (row.steps, row.seconds, row.seconds_training, row.epsilon) == (12, 3.5, 1.25, 2.99)
    assert (row.accuracy, row.worst) == (0.75, None)
    assert (row.result_version, row.host) == ("4", "here")
    assert row_of(line_of(row)) == row


def test_infinity_and_what_a_release_withholds_come_back(runs):
    folder = plant(runs, RUN_KEYS[0], epsilon="inf", seconds=None, steps_taken=5)
    row = read_row(folder)
    assert row is not None
    assert math.isinf(row.epsilon)
    assert row.seconds is None
    assert row.steps == 5
    assert row_of(line_of(row)) == row


def test_each_folder_is_opened_once_and_then_never(runs, opened):
    assert Index(runs).finished() == said(runs)
    assert sorted(opened) == RUN_KEYS
    opened.clear()
    assert Index(runs).finished() == said(runs)
    assert opened == []


def test_only_what_the_index_does_not_know_is_opened(runs, opened):
    index = Index(runs)
    index.finished()
    opened.clear()
    for key in ("a" * 16, "b" * 16):
        plant(runs, key)
    plant(runs, "c" * 16, status="FAILED")
    assert index.finished().keys() == {*RUN_KEYS, "a" * 16, "b" * 16}
    assert sorted(opened) == ["a" * 16, "b" * 16, "c" * 16]


def test_a_key_without_a_folder_is_left_out_until_it_is_back(runs, tmp_path):
    index = Index(runs)
    index.finished()
    (runs / RUN_KEYS[2]).rename(tmp_path / "away")
    for one in (index, Index(runs)):
        assert one.finished().keys() == set(RUN_KEYS) - {RUN_KEYS[2]}
    (tmp_path / "away").rename(runs / RUN_KEYS[2])
    assert index.finished().keys() == set(RUN_KEYS)


def test_a_lost_index_is_made_again(runs):
    index = Index(runs)
    whole = index.finished()
    (runs / INDEX_FILE).unlink()
    assert index.finished() == whole
    assert Index(runs).finished() == whole
    assert len((runs / INDEX_FILE).read_bytes().splitlines()) == len(RUN_KEYS)


def test_wherever_its_last_line_is_torn_the_answer_is_the_same(runs):
    whole = Index(runs).finished()
    file = runs / INDEX_FILE
    content = file.read_bytes()
    last = len(content.splitlines(keepends=True)[-1])
    for cut in range(len(content) - last, len(content), 7):
        file.write_bytes(content[:cut])
        assert Index(runs).finished() == whole
        assert all(row_of(line) for line in file.read_bytes().splitlines()[-1:])


def test_lines_that_are_no_rows_cost_a_look_and_no_answer(runs, opened):
    whole = Index(runs).finished()
    file = runs / INDEX_FILE
    lines = file.read_bytes().splitlines()
    rest = [b"{}", b"[1]", b"\xff\xfe", b"null", lines[1][:40] + lines[2], *lines[3:]]
    file.write_bytes(b"\n".join([lines[0], *rest]) + b"\n")
    opened.clear()
    assert Index(runs).finished() == whole
    assert sorted(opened) == RUN_KEYS[1:3]


def test_a_cell_that_begins_again_is_not_finished_until_it_ends(runs):
    watching = Index(runs)
    watching.finished()
    key = RUN_KEYS[0]
    plant(runs, key, status="RUNNING")
    Index(runs).begin(runs / key, "flat")
    assert key not in watching.finished()
    assert [(row.run_key, row.status) for row in watching.since()] == []
    plant(runs, key)
    Index(runs).finish(runs / key)
    assert [(row.run_key, row.status) for row in watching.since()] == [(key, "FINISHED")]
    assert key in watching.finished()


def test_what_was_added_is_told_once_and_in_order(runs):
    index = Index(runs)
    assert index.since() == []
    other = Index(runs)
    for key in RUN_KEYS[:3]:
        other.finish(runs / key)
    assert [row.run_key for row in index.since()] == RUN_KEYS[:3]
    assert index.since() == []


def test_a_cell_that_did_not_finish_adds_nothing(runs):
    plant(runs, "d" * 16, status="FAILED")
    Index(runs).finish(runs / ("d" * 16))
    assert not (runs / INDEX_FILE).exists()


def test_processes_that_write_at_once_keep_their_lines_whole(runs):
    code = (
        "import sys; from pathlib import Path; from dpsgd.experiment.sweep.index import Index\n"
        "runs = Path(sys.argv[1])\n"
        "for _ in range(100):\n"
        "    Index(runs).finish(runs / sys.argv[2])"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(runs), key], env=env)
        for key in RUN_KEYS[:3]
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    written = (runs / INDEX_FILE).read_bytes().splitlines()
    # An empty line: a process saw the first half of another's line, and took it for torn.
    rows = [row_of(line) for line in written if line]
    assert len(rows) == 300
    assert all(row is not None for row in rows)


def test_a_folder_that_cannot_be_written_is_read_all_the_same(runs, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(indexing.os, "open", refuse)
    assert Index(runs).finished() == said(runs)
    Index(runs).finish(runs / RUN_KEYS[0])
    assert not (runs / INDEX_FILE).exists()


def test_a_moved_folder_has_the_same_index(runs, tmp_path, opened):
    whole = Index(runs).finished()
    assert str(tmp_path).encode() not in (runs / INDEX_FILE).read_bytes()
    shutil.copytree(runs, tmp_path / "copy")
    runs.rename(tmp_path / "moved")
    opened.clear()
    for place in ("copy", "moved"):
        assert Index(tmp_path / place).finished() == whole
    assert opened == []


def test_a_copy_under_another_key_is_no_answer_to_it(runs):
    plant(runs, RUN_KEYS[0], folder="e" * 16)
    plant(runs, RUN_KEYS[0], folder="a copy")
    plant(runs, RUN_KEYS[0], status="RUNNING")  # as when what was copied is trained again
    assert Index(runs).finished().keys() == set(RUN_KEYS[1:])


@pytest.mark.parametrize("content", ["", "{", '{"run_key": "x"}', "[]"])
def test_a_cell_that_is_torn_is_not_finished(runs, content):
    (runs / RUN_KEYS[0] / "cell.json").write_text(content)
    assert Index(runs).finished().keys() == set(RUN_KEYS[1:])


def test_no_folder_has_no_cells(tmp_path):
    assert Index(tmp_path / "nowhere").finished() == {}
    (tmp_path / "file").write_text("")
    assert Index(tmp_path / "file").finished() == {}


def test_runs_of_another_version_are_counted_and_kept(runs):
    assert older_line(Index(runs).finished(), 4) is None
    plant(runs, "a" * 16, version="3")
    found = Index(runs).finished()
    assert len(found) == len(RUN_KEYS) + 1
    assert older(found, 4) == 1
    line = older_line(found, 4)
    assert line is not None
    assert line.startswith("1 run here is of another version")
    assert len(line.splitlines()) == 1
    assert older(found, 5) == len(found)
