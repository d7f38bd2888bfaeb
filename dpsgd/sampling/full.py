"""Full batches: every unit in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, DrawAt
from dpsgd.sampling.scheme import Scheme, UnitSampler
from dpsgd.sampling.units import Units
from dpsgd.sources import Source


@dataclass(frozen=True)
class Full(Scheme):
    """Settings of full batches (``conf/sampling/full.yaml``).

    ``batch`` must be the number of units. No coin is flipped, and T steps are T plain Gaussian
    releases of everyone, or one of noise multiplier σ/√T: the tightest accounting there is.
    ``max_records_per_user`` and ``combine`` are those of ``poisson``.
    """

    def over(self, units: Units, batch: float) -> FullSampler:
        """Return the sampler of all ``units``."""
        if batch != units.count:
            raise ConfigError(
                "batch", f"{batch:g}",
                f"sampling=full takes every {units.name} in every step: batch={units.count}",
            )  # fmt: skip
        return FullSampler(units)


@dataclass(frozen=True)
class FullSampler(UnitSampler):
    """Every unit is in every step; only which of a user's records come may be random."""

    @property
    def expected_units(self) -> float:
        """The declared number of units."""
        return float(self.n_units)

    @property
    def sampling_probability(self) -> float:
        """Return 1."""
        return 1.0

    @property
    def largest_draw(self) -> float:
        """Return the number of records of every draw."""
        return float(self.units.sizes().sum())

    @property
    def facts(self) -> dict[str, str | int | float]:
        """The scheme."""
        return {"scheme": "full"}

    @property
    def stated(self) -> str:
        """What the ledger says."""
        return f"every {self.unit} is in every step: no chance, and no amplification"

    def steps(self, epochs: float) -> int:
        """Return ``epochs``, rounded up."""
        return math.ceil(epochs)

    def draws(self, streams: Streams) -> DrawAt:
        """Return step to batch."""
        return lambda step: self.draw(streams.source("sampling", step))

    def draw(self, generator: Source) -> Draw:
        """Return every unit, in order."""
        return self.units.draw(torch.arange(self.n_units), generator)
