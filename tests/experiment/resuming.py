"""Cells that are killed and go on, and what they leave, for the tests of resuming."""

import functools
import hashlib
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from analysis import schema
from dpsgd.experiment import cell as running
from dpsgd.experiment.files import read_json
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.resume.generations import CHECKPOINT_FILES, Generations
from dpsgd.experiment.settings import read_cell
from dpsgd.python import resolved

TINY = {
    "data": "digits", "model": "logistic", "steps": 5, "batch": 64, "tracker": "none",
    "telemetry.window": 2, "checkpoint": 0, "runs_dir": "runs", "noise_multiplier": 1.0,
    "epsilon": 20.0, "slices": "label",
}  # fmt: skip
"""Five steps, two windows of telemetry and a rest, a checkpoint after every step."""

BITS = (schema.MODEL_FILE, schema.TELEMETRY_FILE, schema.EVALUATION_FILE, schema.PREDICTIONS_FILE,
        schema.AUDIT_FILE, schema.GRADIENTS_FILE, schema.LEDGER_FILE,
        schema.LEDGER_PAGE)  # fmt: skip
TIMES = ("seconds", "seconds_training", "seconds_evaluation", "finished_at")


class KilledError(BaseException):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Dropping:
    """A model with dropout."""

    name: str

    def build(self, shape):
        size = int(torch.tensor(shape.inputs).prod())
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(size, shape.classes))


@contextmanager
def inside(folder):
    """Run below ``folder``, whose runs have one name wherever they are."""
    before = Path.cwd()
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@dataclass(frozen=True)
class Begun:
    """A model that begins with the weights of a file."""

    name: str
    file: str

    def build(self, shape):
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, shape.classes))
        net[1].weight.data.copy_(torch.load(self.file))
        return net


def run(folder, settings=None, on_step=None):
    """Train a tiny cell below ``folder``; return its run folder, absolute."""
    cell = read_cell(_composed(json.dumps(TINY | (settings or {}))))
    with inside(folder):
        shown = on_step or (lambda *_: None)
        return running.run_cell(prepare(cell), Path("runs"), lambda plan: shown).folder.resolve()


@functools.cache
def _composed(settings):
    given = json.loads(settings)
    return resolved({k: v for k, v in given.items() if v is not None})


def killed(folder, settings=None, at=4):
    """Begin it, and end it while step ``at`` is not kept yet; return the run folder."""

    def kill(step, loss, clip_fraction):
        if step == at:
            raise KilledError

    with pytest.raises(KilledError):
        run(folder, settings, kill)
    (found,) = (folder / "runs").glob(f"*/{schema.STATUS_FILE}")
    return found.parent.resolve()


def killed_in_evaluation(folder, settings=None):
    """Let it end between its last step and the first file."""

    def kill(*args, **kwargs):
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "evaluate_scores", kill)
        with pytest.raises(KilledError):
            run(folder, settings)


def steps_seen(folder, settings=None):
    """Train to the end; return the steps that this attempt took, and the run folder."""
    seen = []
    found = run(folder, settings, lambda step, *_: seen.append(step))
    return seen, found


def bits(folder):
    """The bytes of what a run leaves, without the times."""
    cell = {k: v for k, v in read_json(folder / schema.CELL_FILE).items() if k not in TIMES}
    files = {name: (folder / name).read_bytes() for name in BITS if (folder / name).exists()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return hashes | {"cell": cell}


def kept(folder):
    """The steps of the checkpoints in a run folder, the newest first."""
    return [content["step"] for content in Generations(folder).read()]


def left(folder):
    return [name for name in CHECKPOINT_FILES if (folder / name).exists()]
