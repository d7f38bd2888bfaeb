"""The events that a training run is made of, built so that no accountant misreads them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpsgd.accounting.library import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.errors import ConfigError


def poisson_gaussian(sampling_probability: float, noise_multiplier: float, steps: int) -> DpEvent:
    """Return the event of ``steps`` Gaussian releases, each of a fresh Poisson draw.

    A noise multiplier of 0 is allowed and has infinite ε; 0 steps are the event of nothing.

    Raises:
        ConfigError: unless 0 < ``sampling_probability`` ≤ 1, ``noise_multiplier`` is finite and
            ≥ 0, and ``steps`` is a whole number ≥ 0.

    """
    q = checked_probability(sampling_probability)
    sigma, count = checked_noise(noise_multiplier), checked_steps(steps)
    if count == 0:
        return NoOpDpEvent()
    return SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(sigma)), count)


def checked_probability(value: float) -> float:
    """Return a sampling probability as a float; raise ConfigError unless 0 < it ≤ 1."""
    if not 0 < value <= 1:
        allowed = "a probability with 0 < sampling_probability <= 1"
        raise ConfigError("sampling_probability", value, allowed)
    return float(value)


def checked_noise(value: float) -> float:
    """Return a noise multiplier as a float; raise ConfigError unless it is finite and ≥ 0."""
    if not (value >= 0 and math.isfinite(value)):
        raise ConfigError("noise_multiplier", value, "a finite number >= 0")
    return float(value)


def checked_steps(value: float) -> int:
    """Return a number of steps; raise ConfigError unless it is whole and ≥ 0."""
    if not (value >= 0 and math.isfinite(value) and value == int(value)):
        raise ConfigError("steps", value, "a whole number >= 0")
    return int(value)


def joint_multiplier(sigmas: Iterable[float]) -> float:
    """Return (Σ σ_i⁻²)^(−½), the multiplier of several Gaussian releases of one draw.

    They are one sampled event with this multiplier. Two sampled events would understate ε, for
    the releases share the draw (arXiv 1812.06210, section 3).

    Raises:
        ConfigError: for no multiplier at all, or one that is negative or NaN. A 0 gives 0.

    """
    multipliers = [float(sigma) for sigma in sigmas]
    for sigma in multipliers:
        if not sigma >= 0:
            raise ConfigError("noise_multiplier", sigma, "a number >= 0")
    if not multipliers:
        raise ConfigError("noise_multiplier", None, "at least one release of the draw")
    smallest = min(multipliers)
    if smallest == 0 or math.isinf(smallest):
        return smallest
    # Relative to the smallest, so that no square over- or underflows.
    return smallest / math.sqrt(math.fsum((smallest / sigma) ** 2 for sigma in multipliers))


def no_privacy() -> DpEvent:
    """Return the event that hides nothing: its ε is infinite for every δ."""
    return NonPrivateDpEvent()


def with_float_noise(event: DpEvent) -> DpEvent:
    """Return ``event`` with floats wherever dp-accounting counts on them.

    It tests ``isinstance(sigma, float)`` where it merges Gaussians, so that an integer σ, as
    JSON and yaml give it, changes the answer.
    """
    if isinstance(event, PoissonSampledDpEvent):
        inner = with_float_noise(event.event)
        return PoissonSampledDpEvent(float(event.sampling_probability), inner)
    if isinstance(event, SelfComposedDpEvent):
        return SelfComposedDpEvent(with_float_noise(event.event), event.count)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([with_float_noise(part) for part in event.events])
    if isinstance(event, RepeatAndSelectDpEvent):
        return RepeatAndSelectDpEvent(with_float_noise(event.event), event.mean, event.shape)
    return _release_with_float_noise(event)


def _release_with_float_noise(event: DpEvent) -> DpEvent:
    if isinstance(event, GaussianDpEvent):
        return GaussianDpEvent(float(event.noise_multiplier))
    if isinstance(event, TruncatedSubsampledGaussianDpEvent):
        return TruncatedSubsampledGaussianDpEvent(
            event.dataset_size, float(event.sampling_probability), event.truncated_batch_size,
            float(event.noise_multiplier),
        )  # fmt: skip
    if isinstance(event, MixtureOfGaussiansDpEvent):
        return MixtureOfGaussiansDpEvent(
            float(event.standard_deviation), event.sensitivities, event.sampling_probs
        )
    return event
