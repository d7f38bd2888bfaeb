"""Cells that are killed and go on, and what they leave, for the tests of resuming."""

import hashlib
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from analysis import schema
from dpsgd import train
from dpsgd.experiment import cell as running
from dpsgd.experiment.files import read_json
from dpsgd.experiment.resume.generations import CHECKPOINT_FILES, Generations

TINY = {
    "data": "digits", "model": "logistic", "steps": 7, "batch": 64, "tracker": "none",
    "telemetry.window": 3, "checkpoint": 0, "runs_dir": "runs", "noise_multiplier": 1.0,
    "epsilon": 20.0, "slices": "label",
}  # fmt: skip
"""Seven steps, two windows of telemetry and a rest, a checkpoint after every step."""

BITS = (schema.MODEL_FILE, schema.TELEMETRY_FILE, schema.EVALUATION_FILE, schema.PREDICTIONS_FILE,
        schema.LEDGER_FILE, schema.LEDGER_PAGE)  # fmt: skip
TIMES = ("seconds", "seconds_training", "seconds_evaluation", "finished_at")


class KilledError(BaseException):
    """Stands for the end of the process."""


@contextmanager
def inside(folder):
    """Run below ``folder``, whose runs have one name wherever they are; accountants remember."""
    before, solved = Path.cwd(), Path(os.environ["XDG_CACHE_HOME"]) / "solved"
    solved.mkdir(parents=True, exist_ok=True)
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    if not (folder / "runs" / ".cache").exists():
        (folder / "runs" / ".cache").symlink_to(solved)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(folder, settings=None, on_step=None):
    """Train a tiny cell below ``folder``; return its run folder, absolute."""
    with inside(folder):
        return train(TINY | (settings or {}), on_step).folder.resolve()


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

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(running, "evaluate_scores", kill)
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
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} | {"cell": cell}


def kept(folder):
    """The steps of the checkpoints in a run folder, the newest first."""
    return [content["step"] for content in Generations(folder).read()]


def left(folder):
    return [name for name in CHECKPOINT_FILES if (folder / name).exists()]
