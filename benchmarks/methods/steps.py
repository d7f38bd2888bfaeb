"""What every method hands over to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

LEARNING_RATE, MOMENTUM = 0.1, 0.9
NORM, NOISE_MULTIPLIER = 1.0, 1.0
"""C and σ of every private method: all clip, and all add noise."""


class UnableError(Exception):
    """The method cannot train the model; the message says why."""


@dataclass(frozen=True)
class Steps:
    """One training step, and the generation of its noise alone (None: it draws no noise)."""

    step: Callable[[], None]
    noise: Callable[[], None] | None


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that every method ends in."""
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
