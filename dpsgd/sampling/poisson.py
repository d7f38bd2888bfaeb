"""Poisson sampling: every unit flips its own coin in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, DrawAt
from dpsgd.sampling.scheme import Scheme, UnitSampler
from dpsgd.sampling.units import Units, coins, expected_and_six
from dpsgd.sources import Source


@dataclass(frozen=True)
class Poisson(Scheme):
    """Settings of Poisson sampling over records or users (``conf/sampling/poisson.yaml``).

    ``max_records_per_user`` bounds how many records of a drawn user enter a step, chosen at random
    after the user's coin; null takes all. ``combine`` says what a user's gradient is: the
    ``average`` or the ``sum`` of the gradients of its drawn records.
    """

    def over(self, units: Units, batch: float) -> PoissonSampler:
        """Return the sampler of ``units``, q = ``batch`` / their number."""
        return PoissonSampler(units, batch)


@dataclass(frozen=True)
class PoissonSampler(UnitSampler):
    """Each unit is drawn with probability q = expected_units / n_units, on its own."""

    expected_units: float

    @property
    def sampling_probability(self) -> float:
        """Return q."""
        return self.expected_units / self.n_units

    @property
    def largest_draw(self) -> float:
        """Return the expected number of records and six standard deviations."""
        return expected_and_six(self.units, self.sampling_probability)

    @property
    def facts(self) -> dict[str, str | int | float]:
        """The scheme and q."""
        return {"scheme": "poisson", "sampling_probability": self.sampling_probability}

    @property
    def stated(self) -> str:
        """What the ledger says."""
        return f"every {self.unit} flips its own coin in every step (Poisson)"

    def steps(self, epochs: float) -> int:
        """Return ``epochs``/q, rounded up."""
        return math.ceil(epochs * self.n_units / self.expected_units)

    def draws(self, streams: Streams) -> DrawAt:
        """Return step to batch, from the step's sampling stream."""
        return lambda step: self.draw(streams.source("sampling", step))

    def draw(self, generator: Source) -> Draw:
        """Flip one float64 coin a unit; the batch may be empty, and is in the units' order."""
        members = coins(self.n_units, self.sampling_probability, generator)
        return self.units.draw(members, generator)
