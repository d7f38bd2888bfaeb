"""Cells that decide while training, and data whose users are in every split."""

from dataclasses import dataclass

import numpy as np
import torch

from dpsgd import train
from dpsgd.data.bundle import Bundle, Split
from dpsgd.experiment.plan import solve
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.python import resolved

TINY = {"data": "digits", "model": "logistic", "steps": 12, "batch": 64, "tracker": "none",
        "telemetry": "off"}  # fmt: skip
DECIDE = {"decide": "validation", "decide.every": 2}
PRIVATE = DECIDE | {"data.holdout": "private"}
EARLY = {"decide.patience": 1, "decide.min_gain": 1.0}
"""No look gains that much, so that the second one ends training."""


def tiny(folder, **settings):
    return train(TINY | {"runs_dir": str(folder)} | settings)


def planned(folder, **settings):
    """The plan of a cell that is not trained."""
    return solve(prepare(read_cell(resolved(TINY | settings))), folder / ".cache")


@dataclass(frozen=True)
class Shared:
    """Sixty users with two training records each, the first twelve of whom own one to three
    validation records.
    """

    name: str = "shared"
    seed: int = 0
    holdout: str = "public"

    def load(self, cache):
        del cache
        owners = {
            "train": np.arange(120) // 2, "validation": np.arange(24) % 12, "test": np.arange(6),
        }  # fmt: skip
        owners["validation"][:4] = 0
        splits = []
        for name, owner in owners.items():
            generator = torch.Generator().manual_seed(len(name))
            labels = torch.arange(len(owner)) % 2
            inputs = torch.randn(len(owner), 3, generator=generator) + labels[:, None]
            splits.append(Split(name, inputs, labels, np.arange(len(owner)), {}, owner))
        return Bundle(
            name="shared", train=splits[0], validation=splits[1], test=splits[2],
            classes=("a", "b"), keep=(1.0, 1.0), holdout=self.holdout, notes=(),
            users=tuple(map(str, range(60))),
        )  # fmt: skip


SHARED = {"data": {"_target_": f"{__name__}.Shared"}, "slices": "label", "batch": 20}
