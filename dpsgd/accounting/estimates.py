"""Closed forms that papers quote, shown beside the accountants. None of them bounds ε."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (scipy ships no types)
from __future__ import annotations

import math
from typing import Any

from scipy import special
from scipy.optimize import brentq

from dpsgd.accounting.library import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

ESTIMATES = {
    "gdp": "a central limit, which may lie below",
    "small_q": "for small q and large σ only",
    "textbook": "√(2T)·q·√ln(1/δ)/σ, constants left out",
}
"""What is wrong with each."""


def estimates(event: DpEvent, delta: float) -> dict[str, float]:
    """Return every estimate of ε under add-or-remove-one; nothing unless ``event`` is T Gaussian
    releases, each of a Poisson draw.
    """
    if not isinstance(event, SelfComposedDpEvent):
        return {}
    draw = event.event
    if not isinstance(draw, PoissonSampledDpEvent) or not isinstance(draw.event, GaussianDpEvent):
        return {}
    q, sigma, steps = draw.sampling_probability, draw.event.noise_multiplier, event.count
    if sigma <= 0:
        return {}
    return {
        "gdp": gdp(q, sigma, steps, delta),
        "small_q": small_q(q, sigma, steps, delta),
        "textbook": textbook(q, sigma, steps, delta),
    }


def gdp(q: float, sigma: float, steps: int, delta: float) -> float:
    """Return the ε of μ-Gaussian DP at ``delta``, μ = q·√(T(e^{1/σ²} − 1)).

    The central limit of Bu, Dong, Long and Su (HDSR 2020), and the dual of Dong, Roth and Su (JRSS
    B 2022, Corollary 1): δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2). inf where float64 cannot tell.
    """
    try:
        mu = q * math.sqrt(steps * math.expm1(sigma**-2))
    except OverflowError:
        return math.inf

    def excess(epsilon: float) -> float:
        above = special.log_ndtr(-epsilon / mu - mu / 2) + epsilon
        return float(special.ndtr(-epsilon / mu + mu / 2) - math.exp(above)) - delta

    if excess(0.0) <= 0:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1
    if not excess(high) < 0:
        return math.inf  # μ²/2 is so large that float64 loses what stands beside it
    root: Any = brentq(excess, 0.0, high)
    return float(root)


def small_q(q: float, sigma: float, steps: int, delta: float) -> float:
    """Return min_α T·q²α/(2σ²) + ln(1/δ)/(α − 1), at its best real order.

    With a = T·q²/(2σ²) that is a + 2·√(a·ln(1/δ)), at α = 1 + √(ln(1/δ)/a).
    """
    a = steps * (q / sigma) ** 2 / 2
    return a + 2 * math.sqrt(a * math.log(1 / delta))


def textbook(q: float, sigma: float, steps: int, delta: float) -> float:
    """Return √(2T)·q·√ln(1/δ)/σ."""
    return math.sqrt(2 * steps * math.log(1 / delta)) * q / sigma
