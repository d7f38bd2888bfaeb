"""Killed at any step and resumed, a run leaves what it would have left unbroken, bit by bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from resuming import (
    TINY,
    bits,
    kept,
    killed,
    killed_in_evaluation,
    left,
    run,
    steps_seen,
)

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.resume import generations
from dpsgd.experiment.secret import SECRET_FILE
from dpsgd.experiment.verify import verify
from dpsgd.training.optim import Descent

USERS = {"users": "dirichlet", "users.count": 60, "clip.unit": "user", "batch": 20,
         "sampling.max_records_per_user": 3}  # fmt: skip
RELEASED = {"release": True, "telemetry": "accounted", "engine.non_finite": "drop"}
KINDS = {
    "flat, raw telemetry with bias": {"telemetry.bias_every": 2, "model": "mlp"},
    "adaptive, whose threshold moves": {"clip": "adaptive"},
    "adaptive by layer, mlp": {"clip": "adaptive_per_layer", "model": "mlp"},
    "no momentum": {"optim.momentum": 0.0, "telemetry": "off"},
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
    "dropout": {"model": "transformer", "data": "digits"},
    "micro-batches": {"engine.micro_batch": 16},
    "stopped by its budget": {"noise_multiplier": 0.8, "epsilon": 3.0, "steps": 400},
    "the baseline": {"mechanism": "neither"},
    "a release": RELEASED,
    "a release of users, shuffled": RELEASED | USERS
    | {"sampling": "shuffled", "relation": "replace_one", "sampling.max_records_per_user": 3},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_after_every_step_it_leaves_the_same_bits(tmp_path, kind):
    settings = {k: v for k, v in KINDS[kind].items() if v is not None}
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
    verdict = verify(folder)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
