"""Run folders as training leaves them, planted without training."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import yaml

from dpsgd.experiment.seal import sealed_files
from dpsgd.experiment.tracker import MlflowTracker

COLUMNS = ("split", "slice_kind", "slice", "metric", "value", "n", "lo", "hi", "release")
ROWS = [
    ("test", "label", "8/x", "recall", 0.5, 10, 0.1, 0.9, "public"),
    ("test", "label", "9", "recall", None, 0, None, None, "public"),
    ("test", "label", "7", "recall", float("nan"), 0, None, None, "public"),
    ("test", "label", "..", "recall", 0.1, 1, None, None, "public"),
    ("test", "label", "8_x", "recall", 0.2, 1, None, None, "public"),
    ("test", "label", "8+x", "recall", 0.3, 1, None, None, "public"),
    ("test", "all", "all", "accuracy", 0.75, 10, None, None, "public"),
    ("validation", "label", "9", "nll", 0.7, 1, None, None, "public"),
    ("train", "label", "8/x", "kept", 0.25, 10, None, None, "private"),
    ("test", "all", "all", "tail_worst", 0.3, 10, 0.1, 0.9, "public"),
]
TELEMETRY = ("step", "slice_kind", "slice", "group", "stat", "value", "release")
CONFIG = {
    "epsilon": 3.0, "mechanism": "private", "seed": 0, "release": False, "runs_dir": "runs",
    "clip": {"_target_": "dpsgd.clipping.flat.Flat", "name": "flat", "norm": 1.0},
    "tracker": {"_target_": "dpsgd.experiment.tracker.NoTracker", "name": "none"},
}  # fmt: skip


def tracker(uri=None, experiment="clipping-atlas"):
    return MlflowTracker("mlflow", uri, experiment)


def cell(key="abc", **changes):
    return {
        "run_key": key, "label": "flat C=1 ε=3 s0", "rule": "flat", "mechanism": "clip_only",
        "private": False,
        "epsilon": "inf", "delta": 1e-4, "noise_multiplier": 0.0, "seconds": 1.0, "steps": 3,
        "finished_at": "2026-01-02T03:04:05+00:00",
        "config.clip.norm": 1.0,
        "metrics": dict(zip(COLUMNS, map(list, zip(*ROWS, strict=True)), strict=True)),
    } | changes  # fmt: skip


def telemetry(steps=(1, 2)):
    rows = [
        (step, kind, name, group, stat, value, release)
        for step in steps
        for kind, name, group, stat, value, release in [
            ("all", "all", "all", "loss", 1.0 / step, "private"),
            ("label", "8", "all", "loss", 99.0, "private"),
            ("label", "8", "all", "kept", 0.5, "private"),
            ("label", "8", "0", "kept", 99.0, "private"),
            ("label", "9", "all", "kept", float("nan"), "private"),
        ]
    ]
    return pd.DataFrame(rows, columns=list(TELEMETRY))


def finished(runs, key="abc", steps=(1, 2), **changes):
    """Plant a finished run and return its folder."""
    folder = Path(runs, key)
    folder.mkdir(parents=True, exist_ok=True)
    telemetry(steps).to_parquet(folder / "telemetry.parquet")
    values = cell(key, **changes)
    _write(folder / "cell.json", values)
    (folder / "config.yaml").write_text(
        yaml.safe_dump(CONFIG | {"release": bool(changes.get("config.release"))})
    )
    ended = {"stopped_by": "steps", "step": 3, "files": sealed_files(folder)}
    status(folder, "FINISHED", **ended)
    return folder


def unfinished(runs, key="abc", how="FAILED", release=False, **more):
    """Plant a run that began, and ended ``how``, or runs."""
    folder = Path(runs, key)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG | {"release": release}))
    status(folder, how, step=1, **more)
    return folder


def status(folder, how, **more):
    values = {
        "status": how, "pid": os.getpid(), "host": socket.gethostname(),
        "started_at": "2026-01-02T03:04:00+00:00", "heartbeat": "2026-01-02T03:04:05+00:00",
        "attempts": 1,
    }  # fmt: skip
    # Whole or not at all, as in earnest: it may be followed meanwhile.
    _write(folder / ".status.tmp", values | more)
    (folder / ".status.tmp").replace(folder / "status.json")


def dead_pid():
    """The id of a process that has ended and was reaped."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def within(seconds, condition):
    """Whether ``condition()`` comes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def _write(file, value):
    file.write_text(json.dumps(value), encoding="utf-8")
