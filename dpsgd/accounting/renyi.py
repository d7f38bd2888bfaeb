"""ε and best order of a Rényi accountant at every real order: an estimate, never a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsgd.accounting.library import DpEvent, NeighboringRelation, canonne, mironov
from dpsgd.accounting.loss import Floats, log_moment

Conversion = Callable[[Floats, Floats, float], Floats]
"""(orders, Rényi divergence at each, δ) → ε by each."""

CANONNE: Conversion = canonne
MIRONOV: Conversion = mironov

_TILTS = (1e-2, 1e5)
_GRID = 29
_ZOOMS = 2
_WHOLE_FROM = 1024.0


def best_order(
    event: DpEvent, relation: NeighboringRelation, delta: float, convert: Conversion
) -> tuple[float, float]:
    """Return about the least ε over real orders, and its order; inf and NaN for no release."""
    low, high = (math.log(tilt) for tilt in _TILTS)
    epsilon, order = math.inf, math.nan
    for _ in range(1 + _ZOOMS):
        places = np.linspace(low, high, _GRID)
        tilts = np.exp(places)
        curve = np.array([log_moment(event, relation, tilt) for tilt in tilts]) / tilts
        if np.isnan(curve).any():
            return math.inf, math.nan
        found = convert(1 + tilts, curve, delta)
        best = int(np.argmin(found))
        epsilon, order = float(found[best]), float(1 + tilts[best])
        low, high = places[max(best - 1, 0)], places[min(best + 1, _GRID - 1)]
    return epsilon, order


def orders_near(order: float, highest: float) -> tuple[float, ...]:
    """Return orders around ``order``, none above ``highest``: whole ones from 1024 on, which cost
    less. Nothing for a NaN.
    """
    if math.isnan(order):
        return ()
    centre = min(order, highest)
    if centre >= _WHOLE_FROM:
        return tuple(float(round(centre) + offset) for offset in (-2, -1, 0, 1, 2))
    return tuple(1 + (centre - 1) * factor for factor in (0.99, 0.997, 1.0, 1.003, 1.01))
