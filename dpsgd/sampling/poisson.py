"""Poisson sampling: every unit flips its own coin in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dpsgd.accounting.events import poisson_gaussian
from dpsgd.accounting.library import DpEvent
from dpsgd.errors import ConfigError
from dpsgd.sampling.sampler import Draw


@dataclass(frozen=True)
class Poisson:
    """Settings of Poisson sampling over records or users (``conf/sampling/poisson.yaml``).

    ``max_records_per_user`` bounds how many records of a drawn user enter a step, chosen at random
    after the user's coin; null takes all. ``combine`` says what a user's gradient is: the
    ``average`` or the ``sum`` of the gradients of its drawn records.
    """

    name: str
    max_records_per_user: int | None
    combine: Literal["average", "sum"]

    def __post_init__(self) -> None:
        if self.max_records_per_user is not None and self.max_records_per_user < 1:
            raise ConfigError(
                "max_records_per_user", self.max_records_per_user, "must be at least 1, or null"
            )

    def records(self, n: int, batch: float) -> PoissonSampler:
        """Return the sampler of ``n`` records with ``batch`` expected records a step."""
        if self.max_records_per_user is not None:
            raise ConfigError(
                "max_records_per_user", self.max_records_per_user,
                "needs clip.unit=user: with records as units, a cap on the draw would let one "
                "record decide whether another is used; use null",
            )  # fmt: skip
        return PoissonSampler(*_checked(n, batch, "records"))

    def users(self, user: Tensor, n_users: int, batch: float) -> UserPoissonSampler:
        """Return the sampler of ``n_users`` users with ``batch`` expected users a step.

        ``user`` ``[records]`` is the user (0 … n_users−1) of each training record.
        """
        n, expected = _checked(n_users, batch, "users")
        order = torch.argsort(user, stable=True)
        counts = torch.bincount(user, minlength=n)
        return UserPoissonSampler(n, expected, order, counts, self.max_records_per_user)


@dataclass(frozen=True)
class PoissonSampler:
    """Each of ``n_units`` records is drawn with probability q = expected_units / n_units."""

    n_units: int
    expected_units: float

    @property
    def sampling_probability(self) -> float:
        """Return q."""
        return self.expected_units / self.n_units

    @property
    def largest_draw(self) -> float:
        """Return the expected number of records and six standard deviations."""
        q = self.sampling_probability
        return self.expected_units + 6 * math.sqrt(self.expected_units * (1 - q))

    def draw(self, generator: torch.Generator) -> Draw:
        """Flip one float64 coin a record; the batch may be empty, and is in record order."""
        records = _coins(self.n_units, self.sampling_probability, generator)
        return Draw(records, torch.arange(len(records), device=records.device), records)

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return ``steps`` Poisson-sampled Gaussians of this noise multiplier."""
        return poisson_gaussian(self.sampling_probability, noise_multiplier, steps)


@dataclass(frozen=True, eq=False)
class UserPoissonSampler:
    """Each of ``n_units`` users is drawn with probability q; a drawn user brings at most
    ``max_records`` of its records, chosen uniformly at random after the coin.

    The coin is the user's alone and the choice stays inside the user, so that the draw is Poisson
    over users whatever the number of their records (Charles et al., arXiv 2407.07737, ULS).
    ``order`` holds the training records sorted by user, ``counts`` ``[n_units]`` how many each has.
    """

    n_units: int
    expected_units: float
    order: Tensor
    counts: Tensor
    max_records: int | None

    @property
    def sampling_probability(self) -> float:
        """Return q."""
        return self.expected_units / self.n_units

    @property
    def largest_draw(self) -> float:
        """Return the expected number of records and six standard deviations."""
        q = self.sampling_probability
        most = self.max_records
        sizes = (self.counts if most is None else self.counts.clamp(max=most)).double()
        sd = math.sqrt(q * (1 - q) * float(sizes.square().sum()))
        return q * float(sizes.sum()) + 6 * sd

    def draw(self, generator: torch.Generator) -> Draw:
        """Flip one float64 coin a user, then choose among the records of those drawn."""
        members = _coins(self.n_units, self.sampling_probability, generator)
        counts = self.counts[members]
        unit = torch.repeat_interleave(torch.arange(len(members)), counts)
        first = self.counts.cumsum(0)[members] - counts
        within = torch.arange(len(unit)) - (counts.cumsum(0) - counts)[unit]
        records = self.order[first[unit] + within]
        if self.max_records is not None and len(counts) and int(counts.max()) > self.max_records:
            chosen = _at_most(self.max_records, unit, within, generator)
            records, unit = records[chosen], unit[chosen]
        return Draw(records, unit, members)

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return ``steps`` Poisson-sampled Gaussians of this noise multiplier, in users."""
        return poisson_gaussian(self.sampling_probability, noise_multiplier, steps)


def _coins(n: int, probability: float, generator: torch.Generator) -> Tensor:
    coins = torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.nonzero(coins < probability).flatten()


def _at_most(most: int, unit: Tensor, within: Tensor, generator: torch.Generator) -> Tensor:
    """Return positions, ascending, of at most ``most`` records of each unit, uniformly chosen.

    ``within`` numbers the records of each unit from 0.
    """
    lots = torch.rand(len(unit), generator=generator, dtype=torch.float64)
    # Sort by lot, then stably by unit: each unit's records in random order, units in place.
    by_lot = torch.argsort(lots)
    shuffled = by_lot[torch.argsort(unit[by_lot], stable=True)]
    return shuffled[within < most].sort().values


def _checked(n: int, batch: float, what: str) -> tuple[int, float]:
    if n < 1:
        raise ConfigError("batch", batch, "the training split is empty")
    if not 0 < batch <= n:
        raise ConfigError("batch", batch, f"must be above 0 and at most the number of {what}, {n}")
    return n, float(batch)
