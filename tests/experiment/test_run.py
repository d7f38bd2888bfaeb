"""The command line, end to end on the smallest data: what it leaves, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from forked import run_each

from analysis import schema

ROOT = Path(__file__).resolve().parents[2]
FAST = ("debug=fast", "tracker=none")


def run(folder, *arguments, cwd=None):
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, "-m", "dpsgd.run", *arguments, f"runs_dir={folder}"]
    return subprocess.run(
        command, env=env, cwd=cwd or folder, capture_output=True, text=True, check=False
    )


def cells(folder):
    return [json.loads(p.read_text()) for p in sorted(folder.glob("*/cell.json"))]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    outcome = run(folder, *FAST, "clip=per_layer")
    assert outcome.returncode == 0, outcome.stderr
    return folder, outcome


def test_a_run_leaves_the_tables_of_the_schema(one):
    folder, _ = one
    (cell,) = cells(folder)
    own = folder / cell["run_key"]
    for name, dtypes in (
        (schema.TELEMETRY_FILE, schema.TELEMETRY),
        (schema.EVALUATION_FILE, schema.EVALUATION),
    ):
        table = pd.read_parquet(own / name)
        assert list(table.columns) == list(dtypes)
        assert len(table)
        assert set(table["slice_kind"]) <= set(schema.SLICE_KINDS)
        assert set(table["release"]) <= set(schema.RELEASES)
    assert set(pd.read_parquet(own / schema.TELEMETRY_FILE)["stat"]) <= set(schema.STATS)
    assert set(pd.read_parquet(own / schema.EVALUATION_FILE)["metric"]) <= set(schema.METRICS)
    predictions = pd.read_parquet(own / schema.PREDICTIONS_FILE)
    probabilities = predictions.filter(like="probability_")
    assert probabilities.sum(axis=1).between(0.999, 1.001).all()
    assert json.loads((own / schema.STATUS_FILE).read_text())["status"] == "FINISHED"
    assert list(cell["metrics"]) == list(schema.CELL_METRICS)


def test_epsilon_is_met_and_never_exceeded(one):
    (cell,) = cells(one[0])
    assert 2.99 <= cell["epsilon"] <= 3.0


def test_the_ledger_lists_its_query_and_what_is_not_covered(one):
    folder, _ = one
    (cell,) = cells(folder)
    ledger = json.loads((folder / cell["run_key"] / schema.LEDGER_FILE).read_text())
    (entry,) = ledger["entries"]
    assert entry["steps"] == cell["steps"] == 3
    assert entry["noise_multiplier"] == cell["noise_multiplier"]
    assert any("telemetry.parquet" in line for line in ledger["not_covered"])
    page = (folder / cell["run_key"] / schema.LEDGER_PAGE).read_text()
    assert "δ = " in page
    assert "Not covered by ε" in page


def test_what_is_printed_fits_80_columns_and_says_the_guarantee(one):
    _, outcome = one
    table = outcome.stdout.split("tail accuracy")[0]
    assert max(map(len, table.splitlines())) <= 80
    for word in ("ε = ", "δ = ", "unit: record", "σ = ", "diagnostic, not private"):
        assert word in outcome.stdout


def test_asked_twice_a_cell_is_shown_and_not_trained_again(one):
    folder, _ = one
    before = cells(folder)
    again = run(folder, *FAST, "clip=per_layer")
    assert again.returncode == 0
    assert "finished before" in again.stdout
    assert cells(folder) == before


@pytest.mark.parametrize("mechanism", ["clip_only", "noise_only", "neither"])
def test_diagnostics_say_infinity_wherever_epsilon_is_shown(tmp_path, mechanism):
    outcome = run(tmp_path, *FAST, f"mechanism={mechanism}")
    assert outcome.returncode == 0, outcome.stderr
    assert "ε = ∞" in outcome.stdout
    (cell,) = cells(tmp_path)
    assert cell["epsilon"] == "inf"
    assert not cell["private"]
    assert "ε=∞" in cell["label"]
    assert "ε = ∞" in (tmp_path / cell["run_key"] / schema.LEDGER_PAGE).read_text()
    assert (cell["run_key"] == cell["baseline_key"]) == (mechanism == "neither")


def test_a_budget_ends_the_run_before_it_is_exceeded(tmp_path):
    outcome = run(tmp_path, *FAST, "steps=400", "noise_multiplier=0.8", "epsilon=3")
    assert outcome.returncode == 0, outcome.stderr
    (cell,) = cells(tmp_path)
    assert cell["stopped_by"] == "budget"
    assert 0 < cell["steps"] < cell["steps_planned"] == 400
    assert cell["epsilon"] <= 3
    assert "stopped by the budget" in outcome.stdout


def test_a_multirun_is_one_epsilon_and_one_baseline(tmp_path):
    outcome = run(
        tmp_path, "-m", *FAST, "clip=flat,per_layer", "clip.norm=0.5,2", "mechanism=private,neither"
    )
    assert outcome.returncode == 0, outcome.stderr
    found = cells(tmp_path)
    private = [c for c in found if c["private"]]
    assert len(private) == 4
    assert len(found) == 5
    assert len({c["noise_multiplier"] for c in private}) == 1
    assert {c["baseline_key"] for c in found} == {
        c["run_key"] for c in found if c["mechanism"] == "neither"
    }


REFUSED = {
    "clip=flta": "clip=flta: no such option (did you mean 'flat'?); choose one of",
    "clip.nrom=1": "clip.nrom: no such key (did you mean 'norm'?); allowed are",
    "clipp=flat": "clipp: no such key",
    "epsilon=-1": "epsilon=-1.0: must be",
    "epsilon=word": "epsilon=word: ",
    "clip.norm=0": "clip.norm=0.0: must be a finite number above 0",
    "clip.norm=inf": "clip.norm=inf: must be a finite number above 0",
    "delta=1": "delta=1.0: must be",
    "delta=0.5": "delta=0.5: must be below 1/",
    "clip=none": "clip=none: bounds nothing",
    "batch=1e9": "batch=1000000000.0: must be",
    "release=true": "telemetry=oracle: must be accounted, off or probe",
    "data.class=x": "data.class=x: no such class",
    "device=tpu9": "device=tpu9: cannot be used here",
    "sweep=nope": "sweep=nope: no such option",
    "clip._target_=no.Such": "clip._target_=no.Such: cannot be imported",
}


def test_the_first_line_says_what_is_wrong_before_training(tmp_path):
    commands = [[*FAST, argument, f"runs_dir={tmp_path / 'runs'}"] for argument in REFUSED]
    for argument, (code, line) in zip(REFUSED, run_each(tmp_path, commands), strict=True):
        assert (argument, code) == (argument, 2)
        assert line.startswith(REFUSED[argument])
    assert cells(tmp_path / "runs") == []


def test_one_bad_cell_stops_a_multirun_before_the_first(tmp_path):
    outcome = run(tmp_path, "-m", *FAST, "clip.norm=1,-3")
    assert outcome.returncode == 2
    assert outcome.stderr.splitlines()[0].startswith("clip.norm=-3.0: must be")
    assert not list(tmp_path.glob("*/status.json"))


def test_a_runs_dir_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    outcome = run(tmp_path / "file", *FAST, cwd=tmp_path)
    assert outcome.returncode == 2
    assert outcome.stdout == ""


def test_help_is_a_page(tmp_path):
    outcome = run(tmp_path, "--help")
    assert outcome.returncode == 0
    for word in ("mechanism", "clip: adaptive, adaptive_per_layer", "Examples"):
        assert word in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= 80
