"""Audits of many runs: error rates of one test over independent runs, with exact intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize, special, stats

_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Trials:
    """Runs with and without the canary, and how often one test was wrong about each.

    ``false_positives`` of ``without`` runs, ``false_negatives`` of ``with_`` runs.
    """

    without: int
    with_: int
    false_positives: int
    false_negatives: int

    def __post_init__(self) -> None:
        if not (0 <= self.false_positives <= self.without and self.without > 0):
            raise ValueError(f"false positives of runs without the canary: {self}")
        if not (0 <= self.false_negatives <= self.with_ and self.with_ > 0):
            raise ValueError(f"false negatives of runs with the canary: {self}")

    def rates(self, significance: float) -> tuple[float, float]:
        """Return upper bounds on the false positive and the false negative rate, which hold
        together with confidence 1 − ``significance`` (Clopper and Pearson, Biometrika 1934).
        """
        half = significance / 2
        return (
            _upper(self.false_positives, self.without, half),
            _upper(self.false_negatives, self.with_, half),
        )


def epsilon_of_trials(trials: Trials, delta: float, significance: float) -> float:
    """Return a lower bound on ε: the smallest at which (ε, δ) allows such rates; 0 for none.

    max(ln((1 − δ − fpr)/fnr), ln((1 − δ − fnr)/fpr)) at the upper bounds of both rates (Kairouz,
    Oh and Viswanath, ICML 2015, theorem 2.1; Nasr et al., IEEE S&P 2021, section II).
    """
    false_positive, false_negative = trials.rates(significance)
    found = [0.0]
    for one, other in ((false_positive, false_negative), (false_negative, false_positive)):
        if 1 - delta - one > 0:
            found.append(math.log((1 - delta - one) / other))
    return max(found)


def mu_of_trials(trials: Trials, significance: float) -> float:
    """Return a lower bound on μ: Φ⁻¹(1 − fpr) − Φ⁻¹(fnr) at the upper bounds of both rates.

    *Assumes a curve of Gaussian shape* (Nasr et al., "Tight auditing of differentially private
    machine learning", USENIX Security 2023, section 4.2).
    """
    false_positive, false_negative = trials.rates(significance)
    if false_positive >= 1 or false_negative >= 1:
        return 0.0
    mu = float(special.ndtri(1 - false_positive) - special.ndtri(false_negative))
    return max(0.0, mu)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the ε of a Gaussian curve μ at ``delta``: the root of δ(ε) = Φ(−ε/μ + μ/2) −
    e^ε·Φ(−ε/μ − μ/2) (Dong, Roth and Su, 2022, corollary 2.13); 0 if δ(0) is small enough.
    """

    def excess(epsilon: float) -> float:
        second = special.log_ndtr(-epsilon / mu - mu / 2)
        return float(special.ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon + second)) - delta

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    found = optimize.root_scalar(excess, bracket=(0.0, high), method="brentq", xtol=_TOLERANCE)
    return float(found.root)


def _upper(count: int, n: int, significance: float) -> float:
    return float(stats.beta.ppf(1 - significance, count + 1, n - count)) if count < n else 1.0
