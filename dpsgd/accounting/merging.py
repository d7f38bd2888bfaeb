"""Several releases of one draw are one event; several draws are a composition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dpsgd.accounting.events import joint_multiplier
from dpsgd.accounting.library import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.accounting.sampled import FixedBatchesDpEvent
from dpsgd.errors import ConfigError


def noise_of(event: DpEvent) -> float:
    """Return the one noise multiplier of all Gaussians inside ``event``.

    Raises:
        ConfigError: for an event without noise, or with more than one multiplier.

    """
    found: set[float] = set()

    def note(sigma: float) -> float:
        found.add(sigma)
        return sigma

    _with_noise(event, note)
    if len(found) != 1:
        raise ConfigError("event", sorted(found), "needs Gaussians of one noise multiplier")
    return found.pop()


def merged(events: Sequence[DpEvent]) -> DpEvent:
    """Return the one event of several releases of the same draws.

    They are the same event apart from their σ_i, and so is the joint one, with (Σσ_i⁻²)^(−½) in
    the place of σ_i: ``PoissonSampled(q, Gaussian(σ))`` for those of one Poisson draw.

    Raises:
        ConfigError: for no event, and for events that differ in more than their noise: they
            cannot be releases of the same draws.

    """
    if not events:
        raise ConfigError("event", None, "at least one release of the draw")
    shapes = [_with_noise(event, lambda _: 1.0) for event in events]
    if any(shape != shapes[0] for shape in shapes):
        raise ConfigError(
            "event", "(several)", "releases of one draw must differ in their noise alone"
        )
    if len(events) == 1:
        return events[0]
    sigma = joint_multiplier(noise_of(event) for event in events)
    return _with_noise(events[0], lambda _: sigma)


def composed(events: Iterable[DpEvent]) -> DpEvent:
    """Return the composition of ``events``, the same whatever their order.

    Equal ones are counted, which accountants compute faster than as many single ones.
    """
    counts: dict[str, tuple[DpEvent, int]] = {}
    for given in events:
        event, count = _counted(given, 1)
        key = repr(event)
        counts[key] = (event, counts.get(key, (event, 0))[1] + count)
    parts = [
        event if count == 1 else SelfComposedDpEvent(event, count)
        for _, (event, count) in sorted(counts.items())
        if count and not isinstance(event, NoOpDpEvent)
    ]
    if not parts:
        return NoOpDpEvent()
    return parts[0] if len(parts) == 1 else ComposedDpEvent(parts)


def _counted(event: DpEvent, count: int) -> tuple[DpEvent, int]:
    if isinstance(event, SelfComposedDpEvent):
        return _counted(event.event, count * event.count)
    return event, count


def _with_noise(event: DpEvent, change: Callable[[float], float]) -> DpEvent:
    """Return ``event`` with every noise multiplier changed; ConfigError for other mechanisms."""
    if isinstance(event, PoissonSampledDpEvent):
        return PoissonSampledDpEvent(event.sampling_probability, _with_noise(event.event, change))
    if isinstance(event, SelfComposedDpEvent):
        return SelfComposedDpEvent(_with_noise(event.event, change), event.count)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([_with_noise(part, change) for part in event.events])
    return _release_with_noise(event, change)


def _release_with_noise(event: DpEvent, change: Callable[[float], float]) -> DpEvent:
    if isinstance(event, GaussianDpEvent):
        return GaussianDpEvent(change(event.noise_multiplier))
    if isinstance(event, FixedBatchesDpEvent):
        return FixedBatchesDpEvent(change(event.noise_multiplier), event.epochs)
    if isinstance(event, TruncatedSubsampledGaussianDpEvent):
        return TruncatedSubsampledGaussianDpEvent(
            event.dataset_size, event.sampling_probability, event.truncated_batch_size,
            change(event.noise_multiplier),
        )  # fmt: skip
    if isinstance(event, MixtureOfGaussiansDpEvent):
        return MixtureOfGaussiansDpEvent(
            change(event.standard_deviation), event.sensitivities, event.sampling_probs
        )
    raise ConfigError("event", type(event).__name__, "must be made of Gaussian releases")
