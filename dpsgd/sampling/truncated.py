"""Poisson sampling with a cap on the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, DrawAt
from dpsgd.sampling.scheme import Scheme, UnitSampler
from dpsgd.sampling.units import Units, coins, expected_and_six, subset
from dpsgd.sources import Source


@dataclass(frozen=True)
class TruncatedPoisson(Scheme):
    """Settings of Poisson sampling with a cap (``conf/sampling/poisson_truncated.yaml``).

    Where more than ``cap`` units are drawn, a uniformly random subset of ``cap`` of them is kept. A
    unit can then push another out of the batch, and ε pays for how often that may happen (arXiv
    2508.15089): nearly nothing from six standard deviations above the mean on, a multiple at the
    mean. ``max_records_per_user`` and ``combine`` are those of ``poisson``.
    """

    cap: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is not None and self.cap < 1:
            raise ConfigError("cap", self.cap, "must be at least 1, or null")

    def over(self, units: Units, batch: float) -> TruncatedPoissonSampler:
        """Return the sampler of ``units`` with this cap, or with the default one."""
        cap = default_cap(units.count, batch) if self.cap is None else self.cap
        return TruncatedPoissonSampler(units, batch, cap)


def default_cap(n: int, batch: float) -> int:
    """Return the first whole number above the mean and six standard deviations of a draw."""
    return math.floor(batch + 6 * math.sqrt(batch * (1 - batch / n))) + 1


@dataclass(frozen=True)
class TruncatedPoissonSampler(UnitSampler):
    """Each unit is drawn with probability q, and at most ``cap`` of those drawn are kept.

    ``expected_units`` is q·n as without a cap: a fixed denominator, whatever is kept.
    """

    expected_units: float
    cap: int

    @property
    def sampling_probability(self) -> float:
        """Return q, the probability of being drawn, kept or not."""
        return self.expected_units / self.n_units

    @property
    def largest_draw(self) -> float:
        """Return the records that ``cap`` units can bring, or Poisson's number if that is less."""
        most = self.units.sizes().sort(descending=True).values[: self.cap].sum()
        return min(float(most), expected_and_six(self.units, self.sampling_probability))

    @property
    def facts(self) -> dict[str, str | int | float]:
        """The scheme, q, cap, and the number of units of the larger of two neighbours.

        That is n + 1 under add-or-remove-one. It is used for every relation: ε grows with it.
        """
        return {
            "scheme": "poisson_truncated", "sampling_probability": self.sampling_probability,
            "cap": self.cap, "dataset_size": self.n_units + 1,
        }  # fmt: skip

    @property
    def stated(self) -> str:
        """What the ledger says."""
        return (
            f"every {self.unit} flips its own coin in every step (Poisson); where more than "
            f"{self.cap} are drawn, a random subset of {self.cap} is kept, which ε accounts for"
        )

    def steps(self, epochs: float) -> int:
        """Return ``epochs``/q, rounded up."""
        return math.ceil(epochs * self.n_units / self.expected_units)

    def draws(self, streams: Streams) -> DrawAt:
        """Return step to batch, from the step's sampling stream."""
        return lambda step: self.draw(streams.source("sampling", step))

    def draw(self, generator: Source) -> Draw:
        """Flip one float64 coin a unit, then keep ``cap`` of those drawn, in the units' order."""
        members = coins(self.n_units, self.sampling_probability, generator)
        if len(members) > self.cap:
            members = subset(members, self.cap, generator)
        return self.units.draw(members, generator)
