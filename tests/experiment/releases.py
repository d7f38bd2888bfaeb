"""Runs that are released, and what a search through everything they left finds."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpsgd.experiment.secret import SECRET_FILE
from dpsgd.python import resolved, train

BASE = {
    "debug": "fast", "tracker": "none", "release": True, "telemetry": "accounted",
    "engine.non_finite": "drop", "noise_multiplier": 4.0, "epsilon": 3.0,
}  # fmt: skip
USERS = {
    "users": "dirichlet", "users.count": 60, "clip.unit": "user", "batch": 20,
    "sampling.max_records_per_user": 3, "slices": "label",
}  # fmt: skip
UNITS = {"record": {}, "user": USERS}


@dataclass(frozen=True)
class Estimate:
    """An accountant of one's own that is no upper bound."""

    name: str
    certifies: bool


@dataclass(frozen=True)
class Silent:
    """A kind of slice of one's own that does not say what it looks at."""

    kind: ClassVar[str] = "label"

    def assign(self, split, bundle):
        return ("all of it",), np.ones((len(split), 1), dtype=bool)


@dataclass(frozen=True)
class Declared(Silent):
    """One that does."""

    from_train: ClassVar[bool] = False


def released(runs, on_step=None, **changes):
    """A tiny released run below ``runs``."""
    return train(BASE | {"runs_dir": str(runs)} | changes, on_step)


def configured(**changes):
    return resolved(BASE | changes)


def secret_of(folder):
    return json.loads((folder / SECRET_FILE).read_text(encoding="utf-8"))


def holding(root, needle, besides=(SECRET_FILE,)):
    """The files below ``root`` that hold ``needle``, as text or as its bytes."""
    needles = [needle.encode()]
    if len(needle) % 2 == 0 and set(needle) <= set("0123456789abcdef"):
        needles.append(bytes.fromhex(needle))
    return [
        file.relative_to(root)
        for file in sorted(root.rglob("*"))
        if file.is_file()
        and file.name not in besides
        and any(one in file.read_bytes() for one in needles)
    ]
