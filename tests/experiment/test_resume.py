"""Killed at any step and resumed, a run leaves what it would have left unbroken, bit by bit."""

import os
import shutil
import time

import pytest
from resuming import (
    TINY,
    KilledError,
    bits,
    kept,
    killed,
    killed_in_evaluation,
    left,
    run,
    steps_seen,
)

from analysis import schema
from dpsgd import ConfigError
from dpsgd.experiment.files import read_json
from dpsgd.experiment.resume import generations
from dpsgd.experiment.secret import SECRET_FILE
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.verify import verify
from dpsgd.python import resolved
from dpsgd.training.optim import Descent

USERS = {"users": "dirichlet", "users.count": 60, "clip.unit": "user", "batch": 20,
         "sampling.max_records_per_user": 3}  # fmt: skip
RELEASED = {"release": True, "telemetry": "accounted", "engine.non_finite": "drop"}
KINDS = {
    "flat, raw telemetry with bias": {"telemetry.bias_every": 2},
    "adaptive, whose threshold moves": {"clip": "adaptive"},
    "adaptive by layer, mlp": {"clip": "adaptive_per_layer", "model": "mlp"},
    "no momentum": {"optim.momentum": 0.0, "telemetry": "off", "telemetry.window": None},
    "users": USERS,
    "users capped, records drawn": {
        "users": "dirichlet", "users.count": 60, "sampling": "poisson_capped_users",
        "sampling.max_records_per_user": 3, "telemetry": "off", "batch": 20,
        "telemetry.window": None,
    },
    "accounted telemetry": {"telemetry": "accounted", "clip": "adaptive"},
    "public records measured": {"telemetry": "probe", "data.holdout": "public"},
    "decisions": {"decide": "validation", "decide.every": 2, "data.holdout": "private"},
    "stopped early": {"decide": "validation", "decide.every": 2, "decide.patience": 1,
                      "decide.min_gain": 1.0, "decide.select": False},
    "shuffled batches": {"sampling": "shuffled", "relation": "replace_one", "batch": 400},
    "dropout": {"model": {"_target_": "resuming.Dropping", "name": "dropping"}},
    "micro-batches": {"engine.micro_batch": 16},
    "stopped by its budget": {"noise_multiplier": 0.8, "epsilon": 1.5, "steps": 9},
    "the baseline": {"mechanism": "neither"},
    "canaries of gradients": {"audit": "gradient", "audit.canaries": 50},
    "canaries among the records": {"audit": "canaries", "audit.references": 20},
    "a release": RELEASED,
    "a release of users, shuffled": RELEASED | USERS
    | {"sampling": "shuffled", "relation": "replace_one", "sampling.max_records_per_user": 3},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_after_every_step_it_leaves_the_same_bits(tmp_path, kind):
    settings = KINDS[kind]
    whole = run(tmp_path / "whole", settings)
    if settings.get("release"):  # the same key, or it would be another release
        (tmp_path / "broken" / "runs" / whole.name).mkdir(parents=True)
        shutil.copy(whole / SECRET_FILE, tmp_path / "broken" / "runs" / whole.name / SECRET_FILE)
    steps = read_json(whole / schema.STATUS_FILE)["step"]
    for step in range(1, steps + 1):
        folder = killed(tmp_path / "broken", settings, step)
        assert kept(folder) == [s for s in (step - 1, step - 2) if s > 0]
        assert verify(folder, accountants=False).holds
    killed_in_evaluation(tmp_path / "broken", settings)
    seen, folder = steps_seen(tmp_path / "broken", settings)
    early = read_json(folder / schema.CELL_FILE)["stopped_by"] == "early stopping"
    assert seen == ([steps] if early else [])
    assert bits(folder) == bits(whole)
    assert read_json(folder / schema.STATUS_FILE)["attempts"] == steps + 2
    assert left(folder) == []
    verdict = verify(folder, accountants=kind == "adaptive, whose threshold moves")
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]


def test_a_resume_that_forgets_the_velocity_is_seen(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole")
    killed(tmp_path / "broken", at=4)
    monkeypatch.setattr(Descent, "restore", lambda self, state: None)
    assert bits(run(tmp_path / "broken"))[schema.MODEL_FILE] != bits(whole)[schema.MODEL_FILE]


def test_a_run_shorter_than_the_interval_writes_none_and_so_does_null(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(generations, "packed", written.append)
    for place, seconds in enumerate((30.0, None)):
        folder = killed(tmp_path / str(place), {"checkpoint": seconds}, at=5)
        assert (written, left(folder)) == ([], [])
        seen, again = steps_seen(tmp_path / str(place), {"checkpoint": seconds})
        assert seen == [1, 2, 3, 4, 5]
        assert read_json(again / schema.STATUS_FILE)["attempts"] == 2


def test_how_often_checkpoints_are_written_is_no_part_of_the_run_key(tmp_path):
    folder = run(tmp_path)
    assert run(tmp_path, {"checkpoint": 7.5, "resume": "charge"}) == folder
    assert not [key for key in read_json(folder / schema.CELL_FILE) if "checkpoint" in key]


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan"), "often"])
def test_an_interval_that_is_none_is_refused(tmp_path, seconds):
    with pytest.raises(ConfigError, match=r"^checkpoint="):
        read_cell(resolved(TINY | {"checkpoint": seconds}))


def test_seconds_of_training_are_those_of_all_attempts(tmp_path):
    def slow(step, *_):
        time.sleep(0.2)
        if step == 4:
            raise KilledError

    with pytest.raises(KilledError):
        run(tmp_path, on_step=slow)
    cell = read_json(run(tmp_path) / schema.CELL_FILE)
    assert cell["seconds_training"] > 0.6
    assert cell["seconds"] > cell["seconds_training"]


def test_a_status_says_from_where_an_attempt_goes_on(tmp_path):
    killed(tmp_path, at=4)
    folder = killed(tmp_path, at=4)
    status = read_json(folder / schema.STATUS_FILE)
    assert (status["begun"], status["attempts"]) == (3, 2)
    assert "attempt 2" in " ".join(verify(folder, accountants=False).findings.remarks)
