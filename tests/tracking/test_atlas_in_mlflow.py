from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tracked_runs import finished, tracker

from analysis import atlas
from analysis.cells import one_row_each, read_cells
from analysis.mlflow_io import PLACE, Tracking, fetch_cells, tracking_of
from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.push import push

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
import planted_cells

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)
SWEEP = "small µ"
MAP = ("--figures", "map", "--sweep", SWEEP)


def _plant(runs, *cells):
    for content in cells:
        values = {name: value for name, value in content.items() if name != "steps"}
        finished(runs, content["run_key"], **values)
    (runs / "sweeps").mkdir()
    listed = {"name": SWEEP, "keys": [content["run_key"] for content in cells]}
    (runs / "sweeps" / f"{SWEEP}.json").write_text(json.dumps(listed), encoding="utf-8")


@pytest.fixture
def tracked(runs, monkeypatch, tmp_path):
    """A folder with the cells of a sweep, and their copies in its store."""
    _plant(runs, *planted_cells.sweep(["flat"], [1.0], 2, delta=1e-4))
    assert push(runs, tracker()).complete
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return runs


def _artifacts(runs, path):
    store = connect(tracker().address(runs))
    (run,) = store.runs("tags.kind = 'summary'")
    return {entry.path for entry in store.client.list_artifacts(run.info.run_id, path)}


def test_the_atlas_lies_in_the_summary_run_also_when_logged_twice(tracked, capsys):
    for _ in range(2):
        assert atlas.main([str(tracked), *MAP, "--log-mlflow"]) == 0
        assert "logged       sqlite:///" in capsys.readouterr().out
    found = _artifacts(tracked, PLACE)
    names = ("cells.parquet", "atlas.html", "findings.md", "findings.csv", "figures")
    assert found == {f"{PLACE}/{name}" for name in names}
    assert f"{PLACE}/figures/map.svg" in _artifacts(tracked, f"{PLACE}/figures")


def test_without_a_summary_run_the_command_that_makes_it_is_said(runs, capsys):
    _plant(runs, planted_cells.cell())
    connect(tracker().address(runs))
    assert atlas.main([str(runs), *MAP, "--log-mlflow"]) == 1
    assert f"python -m dpsgd.track push {runs}" in capsys.readouterr().err
    assert (runs / "atlas" / "atlas.html").exists()


def test_logging_needs_the_name_of_a_sweep(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        atlas.main([str(tmp_path), "--log-mlflow"])
    assert left.value.code == 2
    assert "needs --sweep" in capsys.readouterr().err


def test_a_store_that_is_not_there_is_not_made(tmp_path, capsys):
    assert atlas.main([f"sqlite:///{tmp_path}/none.db"]) == 2
    assert "no such database" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_cells_from_the_store_are_those_of_the_folders(tracked, tmp_path):
    store = Tracking(f"sqlite:///{tracked}/mlflow.db")
    copies = fetch_cells(store, tmp_path / "copies")
    table, expected = read_cells(copies).table, read_cells(tracked).table
    assert one_row_each(table)["run_key"].tolist() == one_row_each(expected)["run_key"].tolist()
    assert table.equals(expected)
    listed = json.loads((copies / "sweeps" / f"{SWEEP}.json").read_text(encoding="utf-8"))
    assert set(listed["keys"]) == set(expected["run_key"])
    (mark,) = copies.glob("flat-1_0-0/cell.json")
    mark.write_text("{}")
    fetch_cells(store, copies)
    assert mark.read_text() == "{}"


def test_an_atlas_is_drawn_where_only_the_store_is_left(tracked, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert atlas.main([f"sqlite:///{tracked}/mlflow.db", *MAP]) == 0
    assert "cells read   4" in capsys.readouterr().out
    assert (tmp_path / "atlas" / "atlas.html").exists()
    (tmp_path / "empty").mkdir()
    (tracked / "mlflow.db").rename(tmp_path / "empty" / "mlflow.db")
    assert atlas.main([str(tmp_path / "empty"), *MAP]) == 0


def test_a_password_is_not_shown():
    assert Tracking("http://me:geheim@db:5000").shown == "http://me:***@db:5000"


def test_the_store_is_the_one_that_the_runs_name(tmp_path):
    assert tracking_of(tmp_path) is None
    (tmp_path / "k").mkdir()
    config = tmp_path / "k" / "config.yaml"
    config.write_text("seed: 0\ntracker:\n  name: none\ndecide:\n  name: none\n")
    assert tracking_of(tmp_path) is None
    config.write_text("tracker:\n  name: mlflow\n  uri: http://h:1\n  experiment: own\nseed: 0\n")
    assert tracking_of(tmp_path) == Tracking("http://h:1", "own")
