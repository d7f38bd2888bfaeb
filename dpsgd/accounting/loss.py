"""How large the privacy loss of an event is: an estimate to start from, never a certificate.

It chooses the first σ of a search and the grid of the PLD accountant. Both may be off without
harm: the search evaluates a real accountant, and a coarse grid only overstates ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsgd.accounting.library import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.accounting.sampled import FixedBatchesDpEvent, truncation

Floats = NDArray[np.float64]

_NODES: Floats = np.linspace(-10.0, 10.0, 401)  # beyond 10σ lies a mass of 1e-23
_WEIGHTS: Floats = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()

_FAR: Floats = np.linspace(-14.0, 14.0, 561)
_LOG_FAR: Floats = -0.5 * _FAR**2 - np.log(np.exp(-0.5 * _FAR**2).sum())
_STRIDE, _MOST_FAR = 0.1, 4000


@dataclass(frozen=True)
class LossSize:
    """The privacy loss of an event, in nats.

    Attributes:
        steps: how many releases the event composes.
        mean: expected loss over all steps.
        variance: variance over all steps, nats squared.
        span: the widest range of one step's loss, out to ten standard deviations of the noise.

    """

    steps: float
    mean: float
    variance: float
    span: float

    @property
    def gdp(self) -> float:
        """The μ of the Gaussian release that the steps resemble (Dong, Roth and Su, 2022).

        A μ-GDP loss has mean μ²/2 and variance μ². Where few draws carry most of the loss the
        two disagree, and the smaller is nearer the truth.
        """
        return math.sqrt(min(self.variance, 2 * self.mean))


def loss_size(event: DpEvent, relation: NeighboringRelation) -> LossSize:
    """Return the size of the privacy loss of ``event``; kinds not known here count as nothing."""
    steps = mean = variance = span = 0.0
    for release in _releases(event, relation, 1.0):
        one = release.moments()
        steps += release.count
        mean += release.count * one[0]
        variance += release.count * one[1]
        span = max(span, one[2])
    return LossSize(steps, max(mean, 0.0), max(variance, 0.0), span)


def loss_points(
    event: DpEvent, relation: NeighboringRelation
) -> list[tuple[float, Floats, Floats]]:
    """Return, for each kind of release of ``event``: its count, points of one draw's loss, nats,
    and the logs of their probabilities, out to fourteen standard deviations of the noise.
    """
    return [(r.count, *r.points()) for r in _releases(event, relation, 1.0) if r.count > 0]


def log_moment(event: DpEvent, relation: NeighboringRelation, tilt: float) -> float:
    """Return log E e^{``tilt``·L} of the loss of all steps; NaN where no release is known."""
    found = [r.count * r.log_moment(tilt) for r in _releases(event, relation, 1.0) if r.count > 0]
    return math.fsum(found) if found else math.nan


@dataclass(frozen=True)
class _Release:
    """``count`` draws from a mixture of N(shift, sigma²), told apart from another mixture."""

    sigma: float
    shifts: tuple[float, ...]
    probabilities: tuple[float, ...]
    other_shifts: tuple[float, ...]
    other_probabilities: tuple[float, ...]
    count: float

    def points(self) -> tuple[Floats, Floats]:
        """Return points of the loss of one draw and the logs of their probabilities, ``[k]``."""
        x = np.asarray(self.shifts)[:, None] / self.sigma + _FAR
        loss = _log_density(x, self.shifts, self.probabilities, self.sigma)
        loss -= _log_density(x, self.other_shifts, self.other_probabilities, self.sigma)
        logs = np.log(self.probabilities)[:, None] + _LOG_FAR
        return loss.ravel(), logs.ravel()

    def log_moment(self, tilt: float) -> float:
        """Return log E e^{``tilt``·L} of one draw, wherever the tilted noise lies."""
        far = (1 + tilt) * max(abs(shift) for shift in self.shifts) / self.sigma
        low, high = -14.0 - (far if min(self.shifts) < 0 else 0.0), 14.0 + far
        points = min(_MOST_FAR, math.ceil((high - low) / _STRIDE))
        x = np.linspace(low, high, points)
        seen = _log_density(x, self.shifts, self.probabilities, self.sigma)
        loss = seen - _log_density(x, self.other_shifts, self.other_probabilities, self.sigma)
        exponents = seen - 0.5 * x**2 + tilt * loss
        top = float(exponents.max())
        area = float(np.exp(exponents - top).sum()) * (high - low) / (points - 1)
        return top + math.log(area) - 0.5 * math.log(2 * math.pi)

    def moments(self) -> tuple[float, float, float]:
        """Return mean, variance and range of the loss of one draw."""
        x = np.asarray(self.shifts)[:, None] / self.sigma + _NODES
        loss = _log_density(x, self.shifts, self.probabilities, self.sigma)
        loss -= _log_density(x, self.other_shifts, self.other_probabilities, self.sigma)
        weights = np.asarray(self.probabilities)[:, None] * _WEIGHTS
        mean = float((weights * loss).sum())
        variance = float((weights * (loss - mean) ** 2).sum())
        return mean, variance, float(loss.max() - loss.min())


def _log_density(
    x: Floats, shifts: tuple[float, ...], probabilities: tuple[float, ...], sigma: float
) -> Floats:
    """Return the log of the mixture's density over that of N(0, 1), at ``x`` in units of σ."""
    centres = np.asarray(shifts) / sigma
    logs = np.log(probabilities) + x[..., None] * centres - 0.5 * centres**2
    return np.logaddexp.reduce(logs, axis=-1)


def _releases(event: DpEvent, relation: NeighboringRelation, count: float) -> Iterator[_Release]:
    """Yield the Gaussian releases of ``event``; those without noise are left out."""
    if isinstance(event, SelfComposedDpEvent):
        yield from _releases(event.event, relation, count * event.count)
    elif isinstance(event, ComposedDpEvent):
        for part in event.events:
            yield from _releases(part, relation, count)
    elif isinstance(event, RepeatAndSelectDpEvent):
        yield from _releases(event.event, relation, count)
    elif isinstance(event, GaussianDpEvent):
        # Repeats of one Gaussian are one Gaussian; the accountants merge them likewise.
        yield from _sampled(1.0, event.noise_multiplier / math.sqrt(count), relation, 1.0)
    elif isinstance(event, PoissonSampledDpEvent):
        if isinstance(event.event, GaussianDpEvent):
            q = event.sampling_probability
            yield from _sampled(q, event.event.noise_multiplier, relation, count)
    elif isinstance(event, MixtureOfGaussiansDpEvent):
        pairs = zip(event.sensitivities, event.sampling_probs, strict=True)
        shifts, probabilities = zip(*((s, p) for s, p in pairs if p > 0), strict=True)
        if event.standard_deviation > 0:
            yield _Release(event.standard_deviation, shifts, probabilities, (0.0,), (1.0,), count)
    elif isinstance(event, TruncatedSubsampledGaussianDpEvent):
        sigma, (full, q) = event.noise_multiplier, truncation(event)
        yield from _sampled(event.sampling_probability, sigma, relation, count * (1 - full))
        # Where the others fill the batch, a unit takes another's place: rare, but a wide loss.
        yield from _sampled(q, sigma / 2, NeighboringRelation.REPLACE_ONE, count * full)
    elif isinstance(event, FixedBatchesDpEvent):
        yield from _releases(event.as_gaussians(), relation, count)


def _sampled(
    q: float, sigma: float, relation: NeighboringRelation, count: float
) -> Iterator[_Release]:
    if sigma <= 0 or q <= 0:
        return
    replaced = relation is NeighboringRelation.REPLACE_ONE
    drawn = ((0.0, 1.0), (1 - q, q)) if q < 1 else ((1.0,), (1.0,))
    swapped = ((0.0, -1.0), (1 - q, q)) if q < 1 else ((-1.0,), (1.0,))
    other = swapped if replaced else ((0.0,), (1.0,))
    yield _Release(sigma, *drawn, *other, count)
