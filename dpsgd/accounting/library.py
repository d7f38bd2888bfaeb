"""The door to dp-accounting, which ships no type information: every call typed here.

``mixture.py`` is its side door.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PrivacyAccountant,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
    UnsupportedEventError,
    get_sigma_gaussian,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS
from numpy.typing import NDArray

from dpsgd.accounting.mixture import QuickPLDAccountant
from dpsgd.errors import ConfigError

Floats = NDArray[np.float64]

__all__ = [
    "ComposedDpEvent",
    "DpEvent",
    "GaussianDpEvent",
    "MixtureOfGaussiansDpEvent",
    "NeighboringRelation",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PoissonSampledDpEvent",
    "RepeatAndSelectDpEvent",
    "SelfComposedDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "canonne",
    "canonne_epsilon",
    "default_orders",
    "gaussian_sigma",
    "mironov",
    "moments_epsilon",
    "pld_deltas",
    "pld_epsilon",
    "rdp_epsilon",
    "renyi_curve",
]


def pld_epsilon(event: DpEvent, relation: NeighboringRelation, delta: float, grid: float) -> float:
    """Return ε by privacy loss distributions on losses that are multiples of ``grid``.

    Connect-the-dots rounding (Doroshenko et al., PoPETs 2022), which never understates.
    """
    accountant = QuickPLDAccountant(relation, value_discretization_interval=grid)
    _compose(accountant, "pld", event)
    return float(accountant.get_epsilon(delta))


def pld_deltas(
    event: DpEvent, relation: NeighboringRelation, epsilons: Floats, grid: float
) -> Floats:
    """Return δ at each ε of an event, as :func:`pld_epsilon` rounds: never understated."""
    accountant = QuickPLDAccountant(relation, value_discretization_interval=grid)
    _compose(accountant, "pld", event)
    # One by one: all at once dp-accounting walks over the losses in Python, which takes longer.
    return np.array([accountant.get_delta(float(epsilon)) for epsilon in epsilons])


def canonne(orders: Floats, curve: Floats, delta: float) -> Floats:
    """Return the ε of each order of a Rényi curve (Canonne, Kamath and Steinke, arXiv 2004.00010,
    Proposition 12).
    """
    return curve + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)


def mironov(orders: Floats, curve: Floats, delta: float) -> Floats:
    """Return the ε of each order by the older conversion (Mironov, 2017, Proposition 3)."""
    return curve + math.log(1 / delta) / (orders - 1)


def rdp_epsilon(
    event: DpEvent, relation: NeighboringRelation, delta: float, orders: Sequence[float]
) -> tuple[float, float]:
    """Return ε by Rényi DP, and the order of ``orders`` that gave it: :func:`canonne`."""
    return canonne_epsilon(orders, renyi_curve(event, relation, orders, "rdp"), delta)


def canonne_epsilon(orders: Sequence[float], curve: Floats, delta: float) -> tuple[float, float]:
    """Return ε of a Rényi curve at ``orders``, and the order that gave it."""
    # Rounding can push a tiny divergence below zero, which the conversion would read as ε = 0.
    sound = curve >= 0
    if not sound.any():
        return math.inf, math.nan
    epsilon, order = compute_epsilon(
        np.asarray(orders)[sound].tolist(), curve[sound].tolist(), delta
    )
    return float(epsilon), float(order)


def moments_epsilon(
    event: DpEvent, relation: NeighboringRelation, delta: float, orders: Sequence[float]
) -> tuple[float, float]:
    """Return the least ε of :func:`mironov` over ``orders``, and the order that gave it."""
    curve = renyi_curve(event, relation, orders, "moments")
    if not curve.any():
        return 0.0, math.nan  # nothing was released, which the conversion does not know
    spent = mironov(np.asarray(orders), curve, delta)
    spent = np.where(curve >= 0, spent, math.inf)  # as in canonne_epsilon
    best = int(np.argmin(spent))
    return float(spent[best]), float(orders[best])


def renyi_curve(
    event: DpEvent, relation: NeighboringRelation, orders: Sequence[float], name: str = "rdp"
) -> Floats:
    """Return the Rényi divergence of ``event`` at each of ``orders``; inf where it is unknown.

    ``name`` is the accountant that a refusal names.
    """
    accountant = RdpAccountant(list(orders), relation)
    with _quiet():
        _compose(accountant, name, event)
    return np.asarray(accountant.rdp, dtype=np.float64)


def gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the σ at which one plain Gaussian release is exactly (ε, δ)-private."""
    return float(get_sigma_gaussian(epsilon, delta))


def default_orders() -> tuple[float, ...]:
    """Return dp-accounting's own list of Rényi orders, ascending."""
    return tuple(float(order) for order in DEFAULT_RDP_ORDERS)


@contextmanager
def _quiet() -> Generator[None]:
    """Keep dp-accounting from logging each order whose series does not converge.

    It leaves that order out, which can only raise ε.
    """
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _compose(accountant: PrivacyAccountant, name: str, event: DpEvent) -> None:
    try:
        accountant.compose(event)
    except UnsupportedEventError as error:
        relation = accountant.neighboring_relation.name.lower()
        allowed = f"cannot account for this event under relation={relation}"
        raise ConfigError("accountant", name, allowed, str(error)) from error
