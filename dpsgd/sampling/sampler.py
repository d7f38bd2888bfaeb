"""The object that draws the batch is the object that states the privacy event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from torch import Tensor

from dpsgd.accounting.library import DpEvent
from dpsgd.randomness import Streams

DrawAt: TypeAlias = Callable[[int], "Draw"]
"""Step 1, 2, … to the batch of that step: the same whichever steps were asked for before."""


@dataclass(frozen=True)
class Draw:
    """One step's batch.

    A part is what is clipped as a whole: a record, or a user with all records that it brings.

    Attributes:
        records: ``[records]`` int64 positions in the training split; may be empty.
        unit: ``[records]`` int64, ascending: which of the drawn parts (0 … units−1) each record is
            of. A drawn user may have no record.
        members: ``[units]`` int64, which of all records or users were drawn.

    """

    records: Tensor
    unit: Tensor
    members: Tensor

    @property
    def units(self) -> int:
        """How many parts were drawn. Never a denominator: that is ``expected_units``."""
        return len(self.members)


@dataclass(frozen=True, eq=False)
class Owners:
    """Who owns the training records: ``user`` ``[records]`` int64 in 0 … ``count``−1."""

    user: Tensor
    count: int


class Sampler(Protocol):
    """Draws the batches of a run, and states what a run of such draws is to an accountant."""

    @property
    def unit(self) -> Literal["record", "user"]:
        """What the event protects."""
        ...

    @property
    def n_units(self) -> int:
        """How many of them there are, declared public: what δ is measured against."""
        ...

    @property
    def combine(self) -> Literal["sum", "average"] | None:
        """None: each record of a draw is clipped by itself; else users are, whose gradient is the
        sum or average of those of their drawn records.
        """
        ...

    @property
    def expected_units(self) -> float:
        """The expected size of a draw, in records or users as ``combine`` says: fixed, public, the
        denominator of every released mean.
        """
        ...

    @property
    def sampling_probability(self) -> float | None:
        """The probability q that a record's or user's own coin falls; None where there is none, so
        that nobody can amplify by it.
        """
        ...

    @property
    def largest_draw(self) -> float:
        """The expected number of records of a draw and six standard deviations: a draw with more is
        one in a thousand million.
        """
        ...

    @property
    def facts(self) -> Mapping[str, str | int | float]:
        """What ``schemes.event_of`` needs to know, for the ledger."""
        ...

    @property
    def stated(self) -> str:
        """How batches are drawn and what is claimed of it, in a sentence for the ledger."""
        ...

    def steps(self, epochs: float) -> int:
        """Return how many steps make so many expected passes, rounded up."""
        ...

    def draws(self, streams: Streams) -> DrawAt:
        """Return the batches of a run with these streams."""
        ...

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return the event of ``steps`` draws, each released by a Gaussian of this multiplier."""
        ...


class Sampling(Protocol):
    """The settings of a scheme (``conf/sampling``), which make its sampler."""

    @property
    def name(self) -> str:
        """The option's name."""
        ...

    def records(self, n: int, batch: float, owners: Owners | None = None) -> Sampler:
        """Return the sampler of ``n`` records, each clipped by itself, ``batch`` expected a step.

        Raises:
            ConfigError: a batch or a setting that cannot be, or owners that are not known.

        """
        ...

    def users(self, user: Tensor, n_users: int, batch: float) -> Sampler:
        """Return the sampler of ``n_users`` users, each clipped as a whole.

        ``user`` ``[records]`` is the user (0 … n_users−1) of each training record. Raises
        ConfigError as ``records`` does.
        """
        ...
