"""The events that a training run is made of, built so that no accountant misreads them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpsgd.accounting.library import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
)
from dpsgd.errors import ConfigError


def poisson_gaussian(sampling_probability: float, noise_multiplier: float, steps: int) -> DpEvent:
    """Return the event of ``steps`` Gaussian releases, each of a fresh Poisson draw.

    A noise multiplier of 0 is allowed and has infinite ε; 0 steps are the event of nothing.

    Raises:
        ConfigError: unless 0 < ``sampling_probability`` ≤ 1, ``noise_multiplier`` is finite and
            ≥ 0, and ``steps`` is a whole number ≥ 0.

    """
    if not 0 < sampling_probability <= 1:
        allowed = "a probability with 0 < sampling_probability <= 1"
        raise ConfigError("sampling_probability", sampling_probability, allowed)
    if not (noise_multiplier >= 0 and math.isfinite(noise_multiplier)):
        raise ConfigError("noise_multiplier", noise_multiplier, "a finite number >= 0")
    if not (steps >= 0 and math.isfinite(steps) and steps == int(steps)):
        raise ConfigError("steps", steps, "a whole number >= 0")
    if steps == 0:
        return NoOpDpEvent()
    release = GaussianDpEvent(float(noise_multiplier))
    return SelfComposedDpEvent(
        PoissonSampledDpEvent(float(sampling_probability), release), int(steps)
    )


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
    if isinstance(event, GaussianDpEvent):
        return GaussianDpEvent(float(event.noise_multiplier))
    if isinstance(event, PoissonSampledDpEvent):
        inner = with_float_noise(event.event)
        return PoissonSampledDpEvent(float(event.sampling_probability), inner)
    if isinstance(event, SelfComposedDpEvent):
        return SelfComposedDpEvent(with_float_noise(event.event), event.count)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([with_float_noise(part) for part in event.events])
    if isinstance(event, RepeatAndSelectDpEvent):
        return RepeatAndSelectDpEvent(with_float_noise(event.event), event.mean, event.shape)
    return event
