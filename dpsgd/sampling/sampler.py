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
        unit: ``[records]`` int64, ascending: which of the drawn units (0 … units−1) each record is
            of. A drawn unit may have no record.
        members: ``[units]`` int64, which of all units (0 … n_units−1) were drawn.

    """

    records: Tensor
    unit: Tensor
    members: Tensor

    @property
    def units(self) -> int:
        """How many units were drawn. Never a denominator: that is ``expected_units``."""
        return len(self.members)


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

    @property
    def largest_draw(self) -> float:
        """The expected number of records of a draw and six standard deviations: a draw with more is
        one in a thousand million.
        """
        ...

    def draw(self, generator: torch.Generator) -> Draw:
        """Draw one step's batch."""
        ...

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return the event of ``steps`` draws, each released by a Gaussian of this multiplier."""
        ...
