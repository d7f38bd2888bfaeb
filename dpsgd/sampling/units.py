"""What a scheme draws: records, or users who bring records of theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from dpsgd.errors import ConfigError
from dpsgd.sampling.sampler import Draw
from dpsgd.sources import Source, uniform


@dataclass(frozen=True)
class RecordUnits:
    """``count`` records, each a unit."""

    name: ClassVar[Literal["record"]] = "record"
    combine: ClassVar[None] = None
    count: int

    def draw(self, members: Tensor, generator: Source) -> Draw:
        """Return the batch of the records ``members``."""
        return Draw(members, torch.arange(len(members), device=members.device), members)

    def sizes(self) -> Tensor:
        """Return how many records each unit brings, float64."""
        return torch.ones(self.count, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class UserUnits:
    """``count`` users. A drawn one brings at most ``max_records`` of its records (None: all),
    chosen uniformly at random after it was drawn.

    The choice stays inside the user, so that who is drawn depends on nobody's number of records
    (Charles et al., arXiv 2407.07737, ULS). ``order`` holds the training records sorted by user,
    ``counts`` ``[count]`` how many each has.
    """

    name: ClassVar[Literal["user"]] = "user"
    count: int
    order: Tensor
    counts: Tensor
    max_records: int | None
    combine: Literal["sum", "average"]

    @classmethod
    def of(
        cls, user: Tensor, n_users: int, most: int | None, combine: Literal["sum", "average"]
    ) -> UserUnits:
        """Return the users of records whose owners are ``user`` ``[records]``."""
        order = torch.argsort(user, stable=True)
        return cls(n_users, order, torch.bincount(user, minlength=n_users), most, combine)

    def draw(self, members: Tensor, generator: Source) -> Draw:
        """Return the batch of the users ``members`` (ascending), choosing among their records."""
        counts = self.counts[members]
        unit = torch.repeat_interleave(torch.arange(len(members)), counts)
        first = self.counts.cumsum(0)[members] - counts
        within = torch.arange(len(unit)) - (counts.cumsum(0) - counts)[unit]
        records = self.order[first[unit] + within]
        if self.max_records is not None and len(counts) and int(counts.max()) > self.max_records:
            chosen = at_most(self.max_records, unit, within, generator)
            records, unit = records[chosen], unit[chosen]
        return Draw(records, unit, members)

    def sizes(self) -> Tensor:
        """Return how many records each unit brings, float64."""
        most = self.max_records
        return (self.counts if most is None else self.counts.clamp(max=most)).double()


Units: TypeAlias = RecordUnits | UserUnits


def coins(n: int, probability: float, generator: Source) -> Tensor:
    """Return, ascending, which of ``n`` float64 coins of this probability fell."""
    flips = uniform(generator, n)
    return torch.nonzero(flips < probability).flatten()


def subset(members: Tensor, size: int, generator: Source) -> Tensor:
    """Return ``size`` of ``members``, ascending, every subset being as likely as any other."""
    lots = uniform(generator, len(members))
    return members[torch.argsort(lots)[:size].sort().values]


def at_most(most: int, unit: Tensor, within: Tensor, generator: Source) -> Tensor:
    """Return positions, ascending, of at most ``most`` records of each unit, uniformly chosen.

    ``unit`` ``[records]`` is ascending; ``within`` numbers the records of each unit from 0.
    """
    lots = uniform(generator, len(unit))
    # Sort by lot, then stably by unit: each unit's records in random order, units in place.
    by_lot = torch.argsort(lots)
    shuffled = by_lot[torch.argsort(unit[by_lot], stable=True)]
    return shuffled[within < most].sort().values


def expected_and_six(units: Units, q: float) -> float:
    """Return the mean and six standard deviations of a Poisson draw's number of records."""
    sizes = units.sizes()
    sd = math.sqrt(q * (1 - q) * float(sizes.square().sum()))
    return q * float(sizes.sum()) + 6 * sd


def checked_batch(n: int, batch: float, what: str) -> float:
    """Return ``batch``; raise ConfigError unless 0 < ``batch`` ≤ ``n``, the number of ``what``."""
    if n < 1:
        raise ConfigError("batch", batch, "the training split is empty")
    if not 0 < batch <= n:
        raise ConfigError("batch", batch, f"must be above 0 and at most the number of {what}, {n}")
    return float(batch)
