"""The one door to prv-accountant, which ships no type information: every call typed here."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from prv_accountant import (
    GaussianMechanism,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    PRVAccountant,
)
from scipy import fft, special

from dpsgd.errors import ConfigError

UNABLE = (ArithmeticError, AssertionError, IndexError, MemoryError, RuntimeError, ValueError)
"""What the package raises where its numbers end."""


@dataclass(frozen=True)
class Release:
    """``count`` Gaussian releases of multiplier ``sigma``, each of a Poisson draw of rate ``q``."""

    q: float
    sigma: float
    count: int


def prv_epsilon(
    releases: list[Release], delta: float, epsilon_error: float, delta_error: float, reach: float
) -> float:
    """Return the upper bound on ε by privacy random variables (Gopi, Lee and Wutschitz, 2021).

    The larger of the two bounds for a unit that is removed and for one that is added. ``reach`` is
    how far the losses are followed, to both sides, in nats.

    Raises:
        ConfigError: where the package gives up.

    """
    both = [[removed(release) for release in releases]]
    if any(release.q < 1 for release in releases):
        both.append([added(release) for release in releases])
    counts = [1 if release.q == 1 else release.count for release in releases]
    try:
        return max(_upper(prvs, counts, delta, epsilon_error, delta_error, reach) for prvs in both)
    except UNABLE as error:
        allowed = "cannot account for this event: its losses are beyond the grid"
        raise ConfigError("accountant", "prv", allowed, f"use accountant=pld ({error})") from error


def grid_spacing(counts: list[int], epsilon_error: float, delta_error: float) -> float:
    """Return the spacing of the package's grid, in nats (Theorem 5.5)."""
    return epsilon_error / math.sqrt(sum(counts) / 2 * math.log(12 / delta_error))


def removed(release: Release) -> PrivacyRandomVariable:
    """Return the loss of a unit's removal, the package's own; plain Gaussians become one."""
    if release.q == 1:
        return GaussianMechanism(release.sigma / math.sqrt(release.count))
    return PoissonSubsampledGaussianMechanism(
        sampling_probability=release.q, noise_multiplier=release.sigma
    )


def added(release: Release) -> PrivacyRandomVariable:
    """Return the loss of a unit's addition, which the package leaves out."""
    return removed(release) if release.q == 1 else _Added(release.q, release.sigma)


def _upper(
    prvs: list[PrivacyRandomVariable], counts: list[int], delta: float,
    epsilon_error: float, delta_error: float, reach: float,
) -> float:  # fmt: skip
    reach = _quick_reach(reach, grid_spacing(counts, epsilon_error, delta_error))
    with warnings.catch_warnings():
        # It warns that ``eps_max`` is taken on trust; ours is its own rule with more orders.
        warnings.simplefilter("ignore")
        accountant: Any = PRVAccountant(
            prvs=prvs, max_self_compositions=counts, eps_error=epsilon_error,
            delta_error=delta_error, eps_max=reach,
        )  # fmt: skip
        _, _, upper = accountant.compute_epsilon(delta, counts)
    if math.isnan(upper):
        raise ArithmeticError("it is not a number")
    return max(0.0, float(upper))


def _quick_reach(reach: float, spacing: float) -> float:
    """Return a reach, no shorter, for which the package's grid has a number of points whose
    Fourier transform is quick: 2·⌈reach/spacing⌉ + 2 of them.
    """
    pairs: Any = fft.next_fast_len(math.ceil(reach / spacing) + 1, real=True)
    return (int(pairs) - 1.5) * spacing


class _Added(PrivacyRandomVariable):
    """The loss seen from a draw without the unit.

    With x ~ N(0, σ²) it is M = −log(1 − q + q·e^{(2x − 1)/(2σ²)}), so that M ≤ t where
    x ≥ σ²·log(1 + (e^{−t} − 1)/q) + ½. It never exceeds −log(1 − q).
    """

    def __init__(self, q: float, sigma: float) -> None:
        self._q, self._sigma = np.longdouble(q), np.longdouble(sigma)

    def cdf(self, t: Any) -> Any:
        ratio = np.expm1(-np.asarray(t, dtype=np.longdouble)) / self._q
        possible = ratio > -1
        z = np.log1p(np.where(possible, ratio, 0))
        below = special.ndtr(-np.double(self._sigma * z + 0.5 / self._sigma))
        return np.where(possible, below, 1.0)
