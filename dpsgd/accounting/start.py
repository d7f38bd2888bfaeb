"""The σ that a search begins with: what an estimate of the true δ says, in a few milliseconds."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpsgd.accounting.bracket import Bracket
from dpsgd.accounting.library import DpEvent, NeighboringRelation, gaussian_sigma
from dpsgd.accounting.loss import loss_size

Excess = Callable[[DpEvent, NeighboringRelation, float, float], float]
"""An estimate: (event, relation, ε, δ) → how far above ε or δ, as a logarithm; NaN: not known."""

LOG_SIGMA = (math.log(1e-3), math.log(1e6))
"""Where a noise multiplier is looked for."""

_CLOSE = 1e-4
_ESTIMATES = 30


def start(
    make_event: Callable[[float], DpEvent],
    relation: NeighboringRelation,
    epsilon: float,
    delta: float,
    excess: Excess,
) -> float:
    """Return log σ at which ``make_event`` spends about ``epsilon`` at ``delta``.

    The central limit (Dong, Roth and Su, 2022) is the first guess, and the answer where
    ``excess`` has none.
    """
    log_sigma = guess = _central_limit(make_event, relation, epsilon, delta)
    bracket = Bracket()
    for _ in range(_ESTIMATES):
        above = excess(make_event(math.exp(guess)), relation, epsilon, delta)
        if math.isnan(above):
            return log_sigma
        bracket.add(guess, above)
        if abs(above) < _CLOSE:
            return guess
        guess = min(max(bracket.propose(), LOG_SIGMA[0]), LOG_SIGMA[1])
    return guess


def _central_limit(
    make_event: Callable[[float], DpEvent],
    relation: NeighboringRelation,
    epsilon: float,
    delta: float,
) -> float:
    """Return log σ at which the event resembles a Gaussian release of ``epsilon`` at ``delta``."""
    mu = 1 / gaussian_sigma(epsilon, delta)
    low, high = LOG_SIGMA
    while high - low > 1e-2:
        middle = 0.5 * (low + high)
        too_loud = loss_size(make_event(math.exp(middle)), relation).gdp > mu
        low, high = (middle, high) if too_loud else (low, middle)
    return 0.5 * (low + high)
