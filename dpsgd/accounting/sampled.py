"""The events of sampling schemes other than plain Poisson."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (scipy ships no types)
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpsgd.accounting.events import checked_noise, checked_probability, checked_steps
from dpsgd.accounting.library import (
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class FixedBatchesDpEvent(DpEvent):
    """``epochs`` passes over disjoint batches of a fixed size, each released by a Gaussian.

    A unit is in one batch of an epoch at most, so that an epoch is one Gaussian release of it,
    whatever the order. That holds where neighbours have the same units in the same places
    (replace-one, zero-out). It is a class of its own, which dp-accounting does not know, because a
    plain Gaussian would be accounted for under add-or-remove-one as well.
    """

    noise_multiplier: float
    epochs: int

    def as_gaussians(self) -> DpEvent:
        """Return the plain Gaussians that this is to one unit under replace-one or zero-out."""
        return SelfComposedDpEvent(GaussianDpEvent(float(self.noise_multiplier)), self.epochs)


def truncated_gaussian(
    dataset_size: int, sampling_probability: float, cap: int, noise_multiplier: float, steps: int
) -> DpEvent:
    """Return ``steps`` Gaussian releases of fresh Poisson draws, cut to ``cap`` units at random.

    ``dataset_size`` is that of the larger of two neighbours (Ganesh et al., arXiv 2508.15089).
    Raises ConfigError as ``poisson_gaussian`` does, and for a size or cap below 1.
    """
    q = checked_probability(sampling_probability)
    sigma, count = checked_noise(noise_multiplier), checked_steps(steps)
    sizes = (_whole("dataset_size", dataset_size), _whole("cap", cap))
    if count == 0:
        return NoOpDpEvent()
    step = TruncatedSubsampledGaussianDpEvent(sizes[0], q, sizes[1], sigma)
    return SelfComposedDpEvent(step, count)


def full_batches(noise_multiplier: float, steps: int) -> DpEvent:
    """Return ``steps`` plain Gaussian releases of everyone."""
    sigma, count = checked_noise(noise_multiplier), checked_steps(steps)
    return SelfComposedDpEvent(GaussianDpEvent(sigma), count) if count else NoOpDpEvent()


def fixed_batches(steps_per_epoch: int, noise_multiplier: float, steps: int) -> DpEvent:
    """Return the epochs that ``steps`` steps begin: the last is paid for in full."""
    sigma, count = checked_noise(noise_multiplier), checked_steps(steps)
    epochs = math.ceil(count / _whole("steps_per_epoch", steps_per_epoch))
    return FixedBatchesDpEvent(sigma, epochs) if count else NoOpDpEvent()


def capped_users(
    max_records: int, sampling_probability: float, noise_multiplier: float, steps: int
) -> DpEvent:
    """Return ``steps`` Gaussian releases of draws in which k ≤ K = ``max_records`` records of a
    user are, k being Binom(K, q): N(0, σ²) against Σ_k Binom(K, q)(k)·N(k, σ²).

    Charles et al., arXiv 2407.07737, Theorem 1; a user with fewer records is dominated by it.
    """
    q, most = checked_probability(sampling_probability), _whole("max_records", max_records)
    sigma, count = checked_noise(noise_multiplier), checked_steps(steps)
    if count == 0:
        return NoOpDpEvent()
    counts, probabilities = _binomial(most, q)
    return SelfComposedDpEvent(MixtureOfGaussiansDpEvent(sigma, counts, probabilities), count)


def truncation(event: TruncatedSubsampledGaussianDpEvent) -> tuple[float, float]:
    """Return the probability that the other units fill the batch, and that of a unit's being in
    the batch given that.
    """
    others, q = event.dataset_size - 1, event.sampling_probability
    cap = event.truncated_batch_size
    full = float(special.bdtrc(cap - 1, others, q)) if cap <= others else 0.0
    if full == 0:
        return 0.0, 0.0
    over = float(special.bdtrc(cap, event.dataset_size, q))
    return full, min(1.0, over * cap / full / event.dataset_size)


def _binomial(most: int, q: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the counts 0 … ``most`` of positive probability, and those probabilities.

    Counts too rare for a float are left to the largest that is not, whose share they cannot change.
    """
    k = np.arange(most + 1)
    logs = special.gammaln(most + 1) - special.gammaln(k + 1) - special.gammaln(most - k + 1)
    logs += special.xlogy(k, q) + special.xlog1py(most - k, -q)
    found = np.exp(logs)
    counts = k[found > 0]
    found = found[found > 0] / found.sum()
    return tuple(counts.astype(float).tolist()), tuple(found.tolist())


def _whole(key: str, value: float) -> int:
    if not (value >= 1 and math.isfinite(value) and value == int(value)):
        raise ConfigError(key, value, "a whole number >= 1")
    return int(value)
