"""Fixed batches from a fresh permutation in every epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, DrawAt
from dpsgd.sampling.scheme import Scheme, UnitSampler
from dpsgd.sampling.units import Units
from dpsgd.sources import permutation


@dataclass(frozen=True)
class Shuffled(Scheme):
    """Settings of shuffled fixed batches (``conf/sampling/shuffled.yaml``).

    Every epoch permutes the units and cuts them into ⌊n/batch⌋ batches of exactly ``batch``. What
    is left over, fewer than ``batch`` units, sits that epoch out: a short last batch would carry
    full noise, and its unit mean a denominator that it does not have.

    A unit is in one batch an epoch at most, and nothing else is claimed of the shuffling: an epoch
    costs what one plain Gaussian release costs, and one that was begun is paid for in full. Batches
    have a fixed size, so that a unit cannot be added or removed without moving others: only
    ``relation=replace_one`` and ``replace_special`` are accounted for.
    ``max_records_per_user`` and ``combine`` are those of ``poisson``.
    """

    def over(self, units: Units, batch: float) -> ShuffledSampler:
        """Return the sampler of ``units`` in batches of exactly ``batch``."""
        if batch != int(batch):
            raise ConfigError("batch", batch, "must be a whole number for sampling=shuffled")
        return ShuffledSampler(units, int(batch))


@dataclass(frozen=True)
class ShuffledSampler(UnitSampler):
    """Batches of exactly ``batch`` units, each unit in one of an epoch's at most."""

    batch: int

    @property
    def expected_units(self) -> float:
        """The size of every batch."""
        return float(self.batch)

    @property
    def sampling_probability(self) -> None:
        """Return None: batch / n is a share, which no accountant may amplify by."""
        return

    @property
    def largest_draw(self) -> float:
        """Return the mean and six standard deviations of a draw without replacement."""
        sizes = self.units.sizes()
        spread = float(sizes.var(correction=0)) * (1 - self.batch / self.n_units)
        return self.batch * float(sizes.mean()) + 6 * math.sqrt(self.batch * spread)

    @property
    def steps_per_epoch(self) -> int:
        """How many batches a permutation gives."""
        return self.n_units // self.batch

    @property
    def facts(self) -> dict[str, str | int | float]:
        """The scheme, and how many steps an epoch has."""
        return {"scheme": "shuffled", "steps_per_epoch": self.steps_per_epoch}

    @property
    def stated(self) -> str:
        """What the ledger says."""
        left = self.n_units - self.batch * self.steps_per_epoch
        out = f"; {left} left over sit an epoch out" if left else ""
        return (
            f"fixed batches from a fresh permutation every {self.steps_per_epoch} steps{out}. No "
            f"amplification is claimed: each {self.unit} is in one release an epoch at most, a "
            "Gaussian of σ, and an epoch that was begun counts in full"
        )

    def steps(self, epochs: float) -> int:
        """Return the steps of so many permutations, rounded up."""
        return math.ceil(epochs * self.steps_per_epoch)

    def draws(self, streams: Streams) -> DrawAt:
        """Return step to batch, from the epoch's permutation stream; it keeps the last epoch's."""
        kept: dict[int, Tensor] = {}

        def at(step: int) -> Draw:
            epoch, place = divmod(step - 1, self.steps_per_epoch)
            if epoch not in kept:
                kept.clear()
                kept[epoch] = permutation(streams.source("shuffle", epoch), self.n_units)
            members = kept[epoch][place * self.batch : (place + 1) * self.batch].sort().values
            return self.units.draw(members, streams.source("sampling", step))

        return at
