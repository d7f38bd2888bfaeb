import errno
import json
import multiprocessing
import shutil
import time

import pushers
import pytest
from tracked_runs import cell, dead_pid, finished, tracker, unfinished

from dpsgd.experiment.mlflow_names import metrics_of
from dpsgd.experiment.track import client
from dpsgd.experiment.track import push as pushing_of
from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.contents import contents
from dpsgd.experiment.track.copying import copy
from dpsgd.experiment.track.ended import ended, ends_of
from dpsgd.experiment.track.memory import Known, Memory
from dpsgd.experiment.track.push import FEW, PUSH_LOCK, Pusher, push

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_a_second_push_finds_nothing_to_do(runs, held):
    for key in ("a", "b"):
        finished(runs, key)
    first, second = push(runs, tracker()), push(runs, tracker())
    assert (sorted(first.copied), first.already) == (["a", "b"], 0)
    assert (second.copied, second.already) == ((), 2)
    assert first.complete
    assert second.complete
    assert {key: len(found) for key, found in held(runs).items()} == {"a": 1, "b": 1}


def test_of_many_runs_the_store_is_asked_in_pages(runs, monkeypatch):
    for number in range(FEW + 1):
        unfinished(runs, f"k{number}")
    assert len(push(runs, tracker()).copied) == FEW + 1
    client = type(connect(tracker().address(runs)).client)
    asked, search = [], client.search_runs

    def counted(self, *args, **kwargs):
        asked.append(args)
        return search(self, *args, **kwargs)

    monkeypatch.setattr(client, "search_runs", counted)
    assert push(runs, tracker()).already == FEW + 1
    assert len(asked) == 1


def test_no_metric_is_lost_however_many_there_are(runs, held):
    steps = range(1, 1500)  # more than MLflow takes at once
    finished(runs, "long", steps)
    assert push(runs, tracker()).complete
    (run,) = held(runs)["long"]
    client = connect(tracker().address(runs)).client
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(m.step, m.value) for m in losses] == [(step, 1 / step) for step in steps]
    assert len(run.data.metrics) == len(metrics_of(cell())) + 2


def test_a_copy_by_half_is_replaced(runs, held):
    finished(runs, "a")
    store = connect(tracker().address(runs))
    half = store.client.create_run(store.experiment_id, tags={"run_key": "a", "kind": "cell"})
    assert push(runs, tracker()).copied == ("a",)
    (run,) = held(runs)["a"]
    assert run.info.run_id != half.info.run_id
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize("how", ["FAILED", "KILLED"])
def test_a_run_that_ended_badly_is_shown_so_until_it_is_finished(runs, held, how):
    unfinished(runs, "a", how, stopped_by="ValueError", traceback="ValueError: of ours")
    assert push(runs, tracker()).copied == ("a",)
    (run,) = held(runs)["a"]
    assert run.info.status == how
    assert run.data.tags["stopped_by"] == "ValueError"
    assert run.data.params["clip.norm"] == "1.0"
    assert push(runs, tracker()).already == 1
    finished(runs, "a")
    assert push(runs, tracker()).copied == ("a",)
    (run,) = held(runs)["a"]
    assert run.info.status == "FINISHED"


def test_a_killed_run_is_killed_there_and_one_that_lives_is_not_there(runs, held):
    unfinished(runs, "killed", "RUNNING", pid=dead_pid())
    unfinished(runs, "living", "RUNNING")
    unfinished(runs, "silent", "RUNNING", host="elsewhere")
    assert push(runs, tracker()).complete
    assert {k: [r.info.status for r in v] for k, v in held(runs).items()} == {
        "killed": ["KILLED"], "silent": ["KILLED"],
    }  # fmt: skip


def test_a_run_on_another_host_lives_while_it_is_heard_of(tmp_path):
    heard = "2999-01-01T00:00:00+00:00"
    assert ended(unfinished(tmp_path, "a", "RUNNING", host="elsewhere", heartbeat=heard)) is None


def test_of_duplicates_one_stays(runs, held):
    folder = finished(runs, "a")
    store = connect(tracker().address(runs))
    found = ended(folder)
    for _ in range(2):
        copy(store, contents(folder, *found), {})
    assert push(runs, tracker()).complete
    assert len(held(runs)["a"]) == 1


@pytest.mark.slow
def test_two_at_once_make_no_duplicates(runs, held):
    keys = [f"k{i}" for i in range(6)]
    for key in keys:
        unfinished(runs, key)
    context = multiprocessing.get_context("spawn")
    with context.Pool(2, pushers.keep, (context.Barrier(2),)) as pool:
        both = pool.map(pushers.push_at_once, [runs, runs], chunksize=1)
    assert sorted(key for one in both for key in one.copied) == keys
    assert {key: len(found) for key, found in held(runs).items()} == dict.fromkeys(keys, 1)


def test_while_another_copies_nothing_is_copied(runs, held, monkeypatch):
    monkeypatch.setattr(client, "LOCK_SECONDS", 0.2)
    finished(runs, "a")
    with client.locked(tracker().address(runs), PUSH_LOCK):
        assert set(push(runs, tracker()).failed) == {"a"}
    assert held(runs) == {}
    assert push(runs, tracker()).copied == ("a",)


def test_a_file_system_without_locks_is_pushed_from(runs, monkeypatch):
    def refused(self):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(client.FileLock, "acquire", refused)
    finished(runs, "a")
    assert push(runs, tracker()).copied == ("a",)


def test_a_folder_that_cannot_be_read_costs_no_other(runs, held):
    finished(runs, "good")
    (finished(runs, "torn") / "cell.json").write_text("{")
    pushed = push(runs, tracker())
    assert set(pushed.failed) == {"torn"}
    assert not pushed.complete
    assert pushed.copied == ("good",)


def test_a_sweep_has_one_summary_with_the_table_of_its_cells(runs, held):
    finished(runs, "a")
    unfinished(runs, "b", traceback="Traceback\n  …\nValueError: of ours")
    (runs / "sweeps").mkdir()
    listed = {"name": "tail & co", "keys": ["a", "b", "later"]}
    (runs / "sweeps/tail.json").write_text(json.dumps(listed))
    for _ in range(2):
        assert push(runs, tracker()).complete
    (found,) = held(runs, query="tags.kind = 'summary'").values()
    (run,) = found
    assert run.info.status == "FINISHED"
    assert run.data.metrics["cells/cells"] == 3
    folder = runs / "mlartifacts" / run.info.run_id / "artifacts"
    rows = {row["run_key"]: row for row in json.loads((folder / "cells.json").read_text())}
    assert {key: row["status"] for key, row in rows.items()} == {
        "a": "FINISHED", "b": "FAILED", "later": "MISSING",
    }  # fmt: skip
    assert rows["a"]["accuracy"] == 0.75
    assert rows["b"]["error"] == "ValueError: of ours"
    assert len((folder / "cells.csv").read_text().splitlines()) == 4
    assert all(run.data.tags["sweep.tail _ co"] == "1" for (run,) in held(runs).values())
    finished(runs, "later")
    push(runs, tracker())
    (again,) = held(runs, query="tags.kind = 'summary'")[""]
    assert again.info.run_id == run.info.run_id
    assert again.data.metrics["cells/finished"] == 2


def test_a_second_sweep_is_named_at_the_cells_that_were_there(runs, held):
    finished(runs, "a")
    push(runs, tracker())
    (runs / "sweeps").mkdir()
    (runs / "sweeps/second.json").write_text(json.dumps({"name": "second", "keys": ["a"]}))
    assert push(runs, tracker()).already == 1
    assert held(runs)["a"][0].data.tags["sweep.second"] == "1"


def test_what_is_remembered_is_what_the_store_was_told_of(runs, held):
    for key in ("a", "b"):
        finished(runs, key)
    push(runs, tracker())
    unfinished(runs, "c")
    store = connect(tracker().address(runs))
    pusher = Pusher(store, runs, {"b": {"sweep.ours": "1"}})
    pusher.learn(ask=False)
    assert pusher.known == {"a": "FINISHED"}  # b lacks its tag, c was never there
    pusher.push(ends_of(runs, "abc"))
    again = Pusher(store, runs, {"b": {"sweep.ours": "1"}})
    again.learn(ask=False)
    assert again.known == {"a": "FINISHED", "b": "FINISHED", "c": "FAILED"}
    assert {key: len(found) for key, found in held(runs).items()} == {"a": 1, "b": 1, "c": 1}


def test_a_database_that_was_made_anew_is_not_taken_for_the_old_one(runs, empty_database):
    finished(runs, "a")
    push(runs, tracker())
    time.sleep(0.01)  # stores are told apart by the millisecond
    shutil.copy(empty_database, runs / "mlflow.db")
    pusher = Pusher(connect(tracker().address(runs)), runs, {})
    pusher.learn(ask=False)
    assert pusher.known == {}
    assert push(runs, tracker()).copied == ("a",)


def test_a_run_that_was_deleted_there_is_missing(runs, held, monkeypatch):
    monkeypatch.setattr(pushing_of, "FEW", 0)
    finished(runs, "a")
    push(runs, tracker())
    (run,) = held(runs)["a"]
    connect(tracker().address(runs)).client.delete_run(run.info.run_id)
    assert push(runs, tracker()).copied == ("a",)


def test_torn_lines_are_not_remembered(tmp_path):
    memory = Memory(tmp_path, ("here", 1))
    memory.add("a", "FINISHED", [])
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text() + '{"key": "b", "sta\n[1]\n{"key": 3}\n')
    memory.add("c", "FAILED", ["sweep.x"])
    assert memory.read() == {
        "a": Known("FINISHED", frozenset()), "c": Known("FAILED", frozenset({"sweep.x"})),
    }  # fmt: skip
    assert Memory(tmp_path, ("here", 2)).read() == {}
