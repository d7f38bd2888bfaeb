"""Audits of one run: how well membership can be guessed under a claim (one coin a canary).

m canaries are each included by a fair coin of their own. An attacker who sees the run guesses for r
of them, the ones that it is surest of, and v guesses are right. Which r, and by which threshold,
must not depend on the coins that the bound counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from dpsgd.auditing.curves import Curve, Floats, gaussian_curve
from dpsgd.auditing.trials import epsilon_of_mu

Flags: TypeAlias = NDArray[np.bool_]

_TOLERANCE = 1e-6
_LARGEST = 1e4
"""An ε that no run of a computer can tell from infinity: more than the r bits of any audit here."""


@dataclass(frozen=True)
class Guesses:
    """``correct`` v of ``made`` r guesses about ``canaries`` m were right."""

    canaries: int
    made: int
    correct: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.made <= self.canaries or self.canaries < 1:
            raise ValueError(f"0 <= correct <= made <= canaries does not hold: {self}")


def guess(scores: Floats, included: Flags, made: int) -> Guesses:
    """Guess ``made`` coins from ``scores`` ``[m]``: half of them "in", for the highest, and half
    "out", for the lowest.

    What is guessed follows from the scores alone: ``included`` ``[m]`` is looked at only to count
    what was right.
    """
    order = np.argsort(scores, kind="stable")
    out, within = made // 2, made - made // 2
    right = int((~included[order[:out]]).sum()) + int(included[order[len(order) - within :]].sum())
    return Guesses(len(scores), made, right)


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Return how likely so many right guesses are at most, if the run is (ε, δ)-private.

    Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
    theorem 5.2: P[V ≥ v] ≤ β + 2mδ·max_i P[v > W ≥ v − i]/i, where W ~ Binomial(r, e^ε/(e^ε + 1))
    and β = P[W ≥ v].
    """
    right = float(special.expit(epsilon))
    made, correct = guesses.made, guesses.correct
    beta = float(stats.binom.sf(correct - 1, made, right))
    if delta == 0 or correct == 0:
        return min(beta, 1.0)
    by = np.arange(1, correct + 1)
    close = stats.binom.sf(correct - by - 1, made, right) - beta
    return min(beta + 2 * guesses.canaries * delta * float(np.max(close / by)), 1.0)


def epsilon_of_guesses(guesses: Guesses, delta: float, significance: float) -> float:
    """Return the largest ε that so many right guesses refute at ``significance``; 0 for none.

    A lower bound on ε with confidence 1 − ``significance``: see :func:`p_value`.
    """
    return _largest_refuted(lambda e: p_value(guesses, e, delta) <= significance)


def refutes(guesses: Guesses, curve: Curve, significance: float) -> bool:
    """Return whether so many right guesses refute that a run has at least this trade-off curve.

    Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run", ICML 2025, the
    recursion for guesses with abstentions: were P[V ≥ v] as large as ``significance``, the curve
    would bound from below how the probability of fewer right guesses grows, count by count; a total
    beyond the share of guesses that is made contradicts it. ``curve`` must be symmetric.
    """
    canaries, made, correct = guesses.canaries, guesses.made, guesses.correct
    if not correct:
        return False
    # Mass, per canary, of outcomes with at least i right guesses: that of right, and of wrong ones.
    right = significance * correct / canaries
    wrong = significance * (made - correct) / canaries
    for count in range(correct - 1, -1, -1):
        least = max(wrong, curve(1 - right))
        if least <= wrong:
            break  # the curve asks for no more at any smaller count either
        right = min(1.0, right + count / (made - count) * (least - wrong))
        wrong = least
    return right + wrong > made / canaries


def gaussian_epsilon_of_guesses(guesses: Guesses, delta: float, significance: float) -> float:
    """Return a lower bound on ε at ``delta`` that *assumes a curve of Gaussian shape*; 0 for none.

    The largest ε such that the Gaussian curve that is exactly (ε, δ)-private is refuted. A run
    of another shape may lie below such a curve at one place and above it at another: what is
    refuted then is the shape. Compare with the run's own curve by :func:`refutes`.
    """
    mu = _largest_refuted(lambda mu: refutes(guesses, gaussian_curve(mu), significance))
    return epsilon_of_mu(mu, delta) if math.isfinite(mu) else math.inf


def _largest_refuted(refuted: Callable[[float], bool]) -> float:
    """Return the largest ε or μ that is refuted."""
    if not refuted(_TOLERANCE):
        return 0.0
    low, high = _TOLERANCE, 1.0
    while refuted(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return math.inf
    found = optimize.root_scalar(
        lambda e: -1.0 if refuted(e) else 1.0, bracket=(low, high), method="bisect", xtol=_TOLERANCE
    )
    return float(found.root)
