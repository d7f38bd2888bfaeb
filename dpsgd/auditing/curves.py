"""Trade-off curves: what an attacker's two kinds of error are at least, under a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats: TypeAlias = NDArray[np.float64]
Curve: TypeAlias = Callable[[float], float]
"""f(α): the least false negative rate of any test with false positive rate α (Dong, Roth and Su,
"Gaussian differential privacy", JRSS-B 2022, definition 2.1). Convex, falling, symmetric here.
"""


def gaussian_curve(mu: float) -> Curve:
    """Return G_μ(α) = Φ(Φ⁻¹(1 − α) − μ): a Gaussian release of sensitivity 1 and σ = 1/μ (ibid.,
    equation 6). Raises ValueError for μ below 0.
    """
    if not mu >= 0:
        raise ValueError(f"mu must be 0 or more, not {mu}")

    def curve(alpha: float) -> float:
        return float(special.ndtr(special.ndtri(1 - alpha) - mu))

    return curve


def curve_of_deltas(epsilons: Sequence[float], deltas: Sequence[float]) -> Curve:
    """Return the trade-off curve of a mechanism that is (ε_i, δ_i)-private for every i.

    f(α) = max_i max(0, 1 − δ_i − e^ε_i·α, e^−ε_i·(1 − δ_i − α)) (ibid., proposition 2.5). A
    finite list states less than the whole privacy profile, so that what refutes this curve refutes
    the mechanism's own. Raises ValueError unless every ε ≥ 0 and 0 ≤ δ ≤ 1.
    """
    eps, delta = np.asarray(epsilons, np.float64), np.asarray(deltas, np.float64)
    if eps.shape != delta.shape or eps.ndim != 1 or not len(eps):
        raise ValueError("one δ for each ε, one at least")
    if (eps < 0).any() or ((delta < 0) | (delta > 1)).any():
        raise ValueError("every ε must be 0 or more, and every δ between 0 and 1")
    falling, rising = np.exp(eps), np.exp(-eps)

    def curve(alpha: float) -> float:
        steep, flat = 1 - delta - falling * alpha, rising * (1 - delta - alpha)
        return float(max(0.0, steep.max(), flat.max()))

    return curve
