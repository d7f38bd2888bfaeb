"""δ of an event at an ε, in a millisecond: an estimate to start from, never a certificate.

With L the privacy loss of all steps and K its cumulant function, and for any s > 0,
δ(ε) = E[(1 − e^{ε−L})₊] = e^{K(s)−sε}·E_s[e^{−s(L−ε)}(1 − e^{ε−L})₊], where E_s weighs every loss
by e^{sL−K(s)}. At the saddle point s the weighted sum of losses lies around ε, so that few points
of a discrete Fourier transform show it, however far out in the tail it was (the idea of Alghamdi
et al., ICML 2023, with the sum itself in place of its normal approximation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsgd.accounting.library import DpEvent, NeighboringRelation
from dpsgd.accounting.loss import Floats, loss_points

_LOG_TILT = (-30.0, 30.0)
_ROUNDS = 60
_REACH = 12.0
_FEWEST, _MOST = 2**9, 2**17
_DECAYED, _MANY, _DOUBLINGS = 40.0, 50, 6


def excess_delta(
    event: DpEvent, relation: NeighboringRelation, epsilon: float, delta: float
) -> float:
    """Return about log(δ(``epsilon``) / ``delta``); NaN where this method ends."""
    return log_delta(event, relation, epsilon) - math.log(delta)


def log_delta(event: DpEvent, relation: NeighboringRelation, epsilon: float) -> float:
    """Return about log δ(``epsilon``); −inf where nothing is left, NaN where this method ends."""
    parts = [_Part(*points) for points in loss_points(event, relation)]
    if sum(part.count * float(part.losses.max()) for part in parts) <= epsilon:
        return -math.inf  # beyond fourteen standard deviations of the noise
    tilt, weighted = _saddle(parts, epsilon)
    if not (math.isfinite(weighted.value) and weighted.variance > 0):
        return math.nan
    expected = _expectation(parts, weighted, tilt, epsilon)
    if not expected > 0:
        return -math.inf
    return weighted.value - tilt * epsilon + math.log(expected)


@dataclass(frozen=True)
class _Part:
    """``count`` independent losses, each at ``losses`` with log probabilities ``logs``, ``[k]``."""

    count: float
    losses: Floats
    logs: Floats

    def tilted(self, tilt: float) -> tuple[float, Floats]:
        """Return one draw's K(``tilt``), and the probabilities weighed by e^{tilt·L − K}."""
        exponents = self.logs + tilt * self.losses
        top = float(exponents.max())
        weights: Floats = np.exp(exponents - top)
        total = float(weights.sum())
        return top + math.log(total), weights / total


@dataclass(frozen=True)
class _Weighted:
    """K(s) of all losses, and mean and variance of their sum under the weights."""

    value: float
    mean: float
    variance: float


def _cumulants(parts: list[_Part], tilt: float) -> _Weighted:
    value = mean = variance = 0.0
    for part in parts:
        one, weights = part.tilted(tilt)
        centre = float(weights @ part.losses)
        value += part.count * one
        mean += part.count * centre
        variance += part.count * float(weights @ (part.losses - centre) ** 2)
    return _Weighted(value, mean, variance)


def _saddle(parts: list[_Part], epsilon: float) -> tuple[float, _Weighted]:
    """Return the s that minimises K(s) − sε − log s − log(1 + s), by Newton steps in log s."""
    low, high = _LOG_TILT
    log_tilt = 0.0
    for _ in range(_ROUNDS):
        tilt = math.exp(log_tilt)
        found = _cumulants(parts, tilt)
        slope = found.mean - epsilon - 1 / tilt - 1 / (1 + tilt)
        low, high = (low, log_tilt) if slope > 0 else (log_tilt, high)
        curvature = found.variance + tilt**-2 + (1 + tilt) ** -2
        step = slope / (curvature * tilt)
        if abs(step) < 1e-2 or high - low < 1e-2:
            break
        inside = low < log_tilt - step < high
        log_tilt = log_tilt - step if inside else 0.5 * (low + high)
    tilt = math.exp(log_tilt)
    return tilt, _cumulants(parts, tilt)


def _expectation(parts: list[_Part], weighted: _Weighted, tilt: float, epsilon: float) -> float:
    """Return E_s[e^{−s(L−ε)}(1 − e^{ε−L})₊] on a grid of losses around ε."""
    spread = [(part, part.tilted(tilt)[1]) for part in parts]
    if len(parts) == 1 and parts[0].count == 1:
        return _excess(parts[0].losses - epsilon, spread[0][1], tilt)
    deviation = math.sqrt(weighted.variance)
    spacing = min(_fine_enough(spread, deviation), 0.25 / tilt, epsilon / 8)
    reach = _REACH * deviation + abs(weighted.mean - epsilon)
    size = _power_of_two(2 * reach / spacing)
    spacing = max(spacing, 2 * reach / size)
    spectrum: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=np.complex128)
    for part, weights in spread:
        spectrum *= np.fft.rfft(_on_grid(part.losses / spacing, weights, size)) ** part.count
    sums: Floats = np.fft.irfft(spectrum, size)
    # Element i holds every multiple of the spacing that is i modulo the size: take those near ε.
    first = math.floor(epsilon / spacing) - size // 2
    places = np.arange(first, first + size)
    losses: Floats = spacing * places.astype(np.float64)
    return _excess(losses - epsilon, sums[places % size], tilt)


def _excess(excess: Floats, weights: Floats, tilt: float) -> float:
    """Return Σ weight·e^{−s·x}(1 − e^{−x}) over the x above 0 of ``excess``."""
    above = excess > 0
    x = excess[above]
    return float(weights[above] @ (np.exp(-tilt * x) * -np.expm1(-x)))


def _fine_enough(spread: list[tuple[_Part, Floats]], deviation: float) -> float:
    """Return a spacing whose interpolation error, T·(y·spacing)⁴/50, is small at every frequency y
    up to where the characteristic function of the sum, about e^{−T·E(1 − cos yL)}, has decayed.
    """
    steps = sum(part.count for part, _ in spread)
    frequency = _DECAYED**0.5 / deviation
    for _ in range(_DOUBLINGS if steps > _MANY else 0):
        if sum(part.count * _decay(part.losses, w, frequency) for part, w in spread) > _DECAYED / 2:
            break
        frequency *= 2
    return 0.6 * max(steps, 1.0) ** -0.25 / frequency


def _decay(losses: Floats, weights: Floats, frequency: float) -> float:
    """Return E(1 − cos yL) of one draw, about its mean."""
    return float(weights @ (1 - np.cos(frequency * (losses - weights @ losses))))


def _on_grid(places: Floats, weights: Floats, size: int) -> Floats:
    """Spread each weight over the four whole numbers around its place, modulo ``size``.

    Cubic interpolation: mean, variance and third moment of every place are kept.
    """
    floor = np.floor(places)
    x = places - floor
    shares = (
        -x * (x - 1) * (x - 2) / 6, (x + 1) * (x - 1) * (x - 2) / 2,
        -(x + 1) * x * (x - 2) / 2, (x + 1) * x * (x - 1) / 6,
    )  # fmt: skip
    grid = np.zeros(size)
    for offset, share in enumerate(shares, start=-1):
        at = (floor + offset).astype(np.int64) % size
        grid += np.bincount(at, weights * share, size)
    return grid


def _power_of_two(points: float) -> int:
    return int(min(_MOST, max(_FEWEST, 2 ** math.ceil(math.log2(points)))))
