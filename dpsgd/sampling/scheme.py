"""The settings that every scheme over records or users shares."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from dpsgd.accounting.library import DpEvent
from dpsgd.errors import ConfigError
from dpsgd.sampling.sampler import Owners, Sampler
from dpsgd.sampling.schemes import event_of
from dpsgd.sampling.units import RecordUnits, Units, UserUnits, checked_batch


@dataclass(frozen=True)
class Scheme(abc.ABC):
    """A scheme that draws the units of ``clip.unit`` themselves, records or users.

    ``max_records_per_user`` bounds how many records of a drawn user enter a step, chosen at random
    after the user was drawn; null takes all. ``combine`` says what a user's gradient is: the
    ``average`` or the ``sum`` of the gradients of its drawn records.
    """

    name: str
    max_records_per_user: int | None
    combine: Literal["average", "sum"]

    def __post_init__(self) -> None:
        check_most(self.max_records_per_user, "must be at least 1, or null")

    @abc.abstractmethod
    def over(self, units: Units, batch: float) -> Sampler:
        """Return the sampler of ``units``, ``batch`` of which are expected in a step."""

    def records(self, n: int, batch: float, owners: Owners | None = None) -> Sampler:
        """Return the sampler of ``n`` records; who owns them does not matter here."""
        if self.max_records_per_user is not None:
            raise ConfigError(
                "max_records_per_user", self.max_records_per_user,
                "needs clip.unit=user: with records as units, a cap on the draw would let one "
                "record decide whether another is used; use null",
                "sampling=poisson_capped_users protects users with records clipped one by one",
            )  # fmt: skip
        return self.over(RecordUnits(n), checked_batch(n, batch, "records"))

    def users(self, user: Tensor, n_users: int, batch: float) -> Sampler:
        """Return the sampler of ``n_users`` users; see :meth:`Sampling.users`."""
        expected = checked_batch(n_users, batch, "users")
        most, combine = self.max_records_per_user, self.combine
        return self.over(UserUnits.of(user, n_users, most, combine), expected)


@dataclass(frozen=True)
class UnitSampler(abc.ABC):
    """What the samplers of ``units`` have in common: what is drawn is what is protected."""

    units: Units

    @property
    def unit(self) -> Literal["record", "user"]:
        """What is drawn, and protected."""
        return self.units.name

    @property
    def n_units(self) -> int:
        """The number of units."""
        return self.units.count

    @property
    def combine(self) -> Literal["sum", "average"] | None:
        """What a user's gradient is; None for records."""
        return self.units.combine

    @property
    @abc.abstractmethod
    def facts(self) -> dict[str, str | int | float]:
        """What ``event_of`` needs to know."""

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return the event of ``steps`` draws, each released by a Gaussian of this multiplier."""
        return event_of(self.facts, noise_multiplier, steps)


def check_most(most: int | None, allowed: str) -> None:
    """Raise ConfigError unless a user's cap is None or at least 1."""
    if most is not None and most < 1:
        raise ConfigError("max_records_per_user", most, allowed)
