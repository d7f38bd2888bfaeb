"""Users protected, records drawn: Poisson over at most K records of each user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dpsgd.accounting.library import DpEvent
from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, DrawAt, Owners
from dpsgd.sampling.scheme import check_most
from dpsgd.sampling.schemes import event_of
from dpsgd.sampling.units import UserUnits, checked_batch, coins


@dataclass(frozen=True)
class CappedUsers:
    """Settings of record sampling that protects users (``conf/sampling/poisson_capped_users.yaml``;
    Charles et al., arXiv 2407.07737, ELS).

    Before training, at most ``max_records_per_user`` records of each user are chosen at random; all
    others are never used. Each chosen record then flips its own coin in every step, and is clipped
    by itself (``clip.unit=record``). A user has k of its K records in a batch with probability
    Binom(K, q)(k) and moves the sum, and whatever the rule asks, by k envelopes at most: the event
    is N(0, σ²) against Σ_k Binom(K, q)(k)·N(k, σ²), and ε, δ and n are about users.

    To choose among the records *drawn* instead would let a user's other records decide which
    are used, and costs far more than this event says.
    """

    name: str
    max_records_per_user: int

    def __post_init__(self) -> None:
        check_most(self.max_records_per_user, "must be at least 1")

    def records(self, n: int, batch: float, owners: Owners | None = None) -> CappedUsersSampler:
        """Return the sampler of ``batch`` expected records, at most K a user in all."""
        if owners is None:
            raise ConfigError(
                "", self.name,
                "protects users, and the data know of none; name their column (data.user=...), or "
                "partition the records: users=dirichlet",
            )  # fmt: skip
        if len(owners.user) != n:
            raise ConfigError("", self.name, f"needs the owner of each of the {n} records")
        most = self.max_records_per_user
        people = UserUnits.of(owners.user, owners.count, most, "sum")
        usable = int(people.sizes().sum())
        what = f"records, {most} a user at most"
        return CappedUsersSampler(people, usable, checked_batch(usable, batch, what), most)

    def users(self, user: Tensor, n_users: int, batch: float) -> CappedUsersSampler:
        """Refuse: records are clipped one by one here."""
        raise ConfigError(
            "clip.unit", "user",
            f"sampling={self.name} clips records one by one, and protects users by their number: "
            "use clip.unit=record with it, or sampling=poisson to clip users as a whole",
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CappedUsersSampler:
    """Each of ``n_records`` chosen records is drawn with probability q = expected / n_records.

    ``expected_units`` counts records; ``n_units`` users, whom the event protects. Both
    ``n_records`` and ``n_units`` are declared public: q and the denominator come from them.
    """

    unit: ClassVar[Literal["user"]] = "user"
    combine: ClassVar[None] = None
    people: UserUnits
    n_records: int
    expected_units: float
    max_records: int

    @property
    def n_units(self) -> int:
        """The number of users."""
        return self.people.count

    @property
    def sampling_probability(self) -> float:
        """Return q, of a chosen record."""
        return self.expected_units / self.n_records

    @property
    def largest_draw(self) -> float:
        """Return the expected number of records and six standard deviations."""
        spread = self.expected_units * (1 - self.sampling_probability)
        return self.expected_units + 6 * math.sqrt(spread)

    @property
    def facts(self) -> dict[str, str | int | float]:
        """The scheme, q, K, and the number of records that are ever used."""
        return {
            "scheme": "poisson_capped_users", "sampling_probability": self.sampling_probability,
            "max_records_per_user": self.max_records, "n_records": self.n_records,
        }  # fmt: skip

    @property
    def stated(self) -> str:
        """What the ledger says."""
        return (
            f"at most {self.max_records} records of each user were chosen before training, "
            f"{self.n_records} in all (declared public); each flips its own coin in every step and "
            "is clipped by itself. ε is of a user with all its records: the event is the mixture "
            "over how many of them are drawn"
        )

    def steps(self, epochs: float) -> int:
        """Return ``epochs``/q, rounded up: passes over the chosen records."""
        return math.ceil(epochs * self.n_records / self.expected_units)

    def chosen(self, streams: Streams) -> Tensor:
        """Return the positions of the records that a run may use, ascending.

        They come from a stream of their own, before any coin and independent of all.
        """
        everyone = torch.arange(self.n_units)
        return self.people.draw(everyone, streams.source("choice")).records.sort().values

    def draws(self, streams: Streams) -> DrawAt:
        """Return step to batch: coins of the step's sampling stream, for the chosen records."""
        usable = self.chosen(streams)

        def at(step: int) -> Draw:
            fell = coins(len(usable), self.sampling_probability, streams.source("sampling", step))
            records = usable[fell]
            return Draw(records, torch.arange(len(records)), records)

        return at

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return ``steps`` mixtures over how many records of one user are drawn."""
        return event_of(self.facts, noise_multiplier, steps)
