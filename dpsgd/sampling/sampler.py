"""The object that draws the batch is the object that states the privacy event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpsgd.accounting.library import DpEvent


@dataclass(frozen=True)
class Draw:
    """One step's batch.

    Attributes:
        records: ``[records]`` int64 positions in the training split; may be empty.
        unit: ``[records]`` int64, the position (0 … units−1) of the unit that each record is of.
        units: how many units were drawn. Never a denominator: that is ``expected_units``.

    """

    records: Tensor
    unit: Tensor
    units: int


class Sampler(Protocol):
    """Draws the batches of a run, and states what a run of such draws is to an accountant."""

    @property
    def n_units(self) -> int:
        """The number of units that a draw chooses from, declared public."""
        ...

    @property
    def expected_units(self) -> float:
        """q·n: fixed, public, the denominator of every released mean."""
        ...

    @property
    def sampling_probability(self) -> float:
        """The probability q that a unit is in a step's batch."""
        ...

    def draw(self, generator: torch.Generator) -> Draw:
        """Draw one step's batch."""
        ...

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return the event of ``steps`` draws, each released by a Gaussian of this multiplier."""
        ...
