"""The door to dp-accounting, which ships no type information: every call typed here.

``mixture.py`` is its side door.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

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

from dpsgd.accounting.mixture import QuickPLDAccountant
from dpsgd.errors import ConfigError

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
    "default_orders",
    "gaussian_sigma",
    "moments_epsilon",
    "pld_epsilon",
    "rdp_epsilon",
]


def pld_epsilon(event: DpEvent, relation: NeighboringRelation, delta: float, grid: float) -> float:
    """Return ε by privacy loss distributions on losses that are multiples of ``grid``.

    Connect-the-dots rounding (Doroshenko et al., PoPETs 2022), which never understates.
    """
    accountant = QuickPLDAccountant(relation, value_discretization_interval=grid)
    _compose(accountant, "pld", event)
    return float(accountant.get_epsilon(delta))


def rdp_epsilon(
    event: DpEvent, relation: NeighboringRelation, delta: float, orders: Sequence[float]
) -> tuple[float, float]:
    """Return ε by Rényi DP, and the order of ``orders`` that gave it.

    The conversion is Proposition 12 of Canonne, Kamath and Steinke, arXiv 2004.00010.
    """
    accountant = RdpAccountant(list(orders), relation)
    with _quiet():
        _compose(accountant, "rdp", event)
    # Rounding can push a tiny divergence below zero, which the conversion would read as ε = 0.
    sound = accountant.rdp >= 0
    if not sound.any():
        return math.inf, math.nan
    epsilon, order = compute_epsilon(
        accountant.orders[sound].tolist(), accountant.rdp[sound].tolist(), delta
    )
    return float(epsilon), float(order)


def moments_epsilon(
    event: DpEvent, relation: NeighboringRelation, delta: float, orders: Sequence[float]
) -> float:
    """Return min over ``orders`` of RDP(α) + ln(1/δ)/(α − 1) (Mironov, 2017, Proposition 3)."""
    accountant = RdpAccountant(list(orders), relation)
    with _quiet():
        _compose(accountant, "moments", event)
    if not accountant.rdp.any():
        return 0.0  # nothing was released, which the conversion does not know
    spent = accountant.rdp + math.log(1 / delta) / (accountant.orders - 1)
    sound = accountant.rdp >= 0  # as in rdp_epsilon
    return float(spent[sound].min()) if sound.any() else math.inf


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
