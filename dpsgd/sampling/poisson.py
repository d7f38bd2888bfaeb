"""Poisson sampling: every unit flips its own coin in every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpsgd.accounting.events import poisson_gaussian
from dpsgd.accounting.library import DpEvent
from dpsgd.errors import ConfigError
from dpsgd.sampling.sampler import Draw


@dataclass(frozen=True)
class Poisson:
    """Settings of Poisson sampling over records (``conf/sampling/poisson.yaml``)."""

    name: str

    def bind(self, n_units: int, batch: float) -> PoissonSampler:
        """Return the sampler of ``n_units`` units with ``batch`` expected units a step."""
        if n_units < 1:
            raise ConfigError("batch", batch, "the training split is empty")
        if not 0 < batch <= n_units:
            raise ConfigError(
                "batch", batch, f"must be above 0 and at most the number of units, {n_units}"
            )
        return PoissonSampler(n_units, float(batch))


@dataclass(frozen=True)
class PoissonSampler:
    """Each of ``n_units`` units is drawn with probability q = expected_units / n_units."""

    n_units: int
    expected_units: float

    @property
    def sampling_probability(self) -> float:
        """Return q."""
        return self.expected_units / self.n_units

    def draw(self, generator: torch.Generator) -> Draw:
        """Flip one float64 coin a unit; the batch may be empty, and is in unit order."""
        coins = torch.rand(
            self.n_units, generator=generator, dtype=torch.float64, device=generator.device
        )
        records = torch.nonzero(coins < self.sampling_probability).flatten()
        return Draw(records, torch.arange(len(records), device=records.device), len(records))

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return ``steps`` Poisson-sampled Gaussians of this noise multiplier."""
        return poisson_gaussian(self.sampling_probability, noise_multiplier, steps)
