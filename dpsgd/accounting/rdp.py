"""Accounting by Rényi differential privacy: looser than PLD, and quick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsgd.accounting.accountant import Relation, checked_delta, neighbouring_relation
from dpsgd.accounting.calibration import SolvesNoise
from dpsgd.accounting.library import DpEvent, NeighboringRelation, default_orders, rdp_epsilon
from dpsgd.accounting.proved import COUNTED_OR_NOT, Proved, proved_event
from dpsgd.accounting.renyi import CANONNE, best_order, orders_near
from dpsgd.errors import ConfigError

_SPARSE_BELOW, SPARSE_ABOVE = 1.2, 10.9
"""Between these orders dp-accounting's list has one every tenth."""

_PUBLISHED_UP_TO = 15.0
"""Published numbers were made with that list alone, up to 0.2 % above the best order's there."""

_THIN_FROM = 40.0
_HIGHEST = 8192.0
_RATIO = 1.15

RENYI: Proved = {
    "gaussian": COUNTED_OR_NOT,
    "poisson": COUNTED_OR_NOT,
    "joint_poisson": COUNTED_OR_NOT,
    "fixed": ("replace_special",),
    "selected": COUNTED_OR_NOT,
}
"""dp-accounting's Rényi DP refuses replace-one for sampled events and *ignores* it for others, so
that it would print the ε of add-or-remove-one.
"""


@dataclass(frozen=True)
class RDP(SolvesNoise):
    """Rényi DP (Mironov, 2017; Mironov, Talwar and Zhang, 2019, for sampled Gaussians).

    Attributes:
        name: the word printed beside ε.
        orders: the Rényi orders to take the least ε over; null for a list that is dense enough
            for every ε.

    """

    certifies: ClassVar[bool] = True
    name: str
    orders: tuple[float, ...] | None

    def __post_init__(self) -> None:
        if self.orders is not None and not (self.orders and all(o > 1 for o in self.orders)):
            raise ConfigError("orders", self.orders, "null, or numbers above 1")

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return an upper bound on ε; see :meth:`Accountant.epsilon`.

        Raises:
            ConfigError: also for an event and relation not in ``RENYI``, replace-one among them.

        """
        neighbours, delta = neighbouring_relation(relation), checked_delta(delta)
        event = proved_event(self.name, event, relation, RENYI)
        if self.orders is not None:
            return rdp_epsilon(event, neighbours, delta, self.orders)[0]
        epsilon, order = rdp_epsilon(event, neighbours, delta, default_orders())
        if is_dense(order, _PUBLISHED_UP_TO):
            return epsilon
        _, exact = best_order(event, neighbours, delta, CANONNE)
        return min(epsilon, rdp_epsilon(event, neighbours, delta, more_orders(exact))[0])

    def excess(
        self, event: DpEvent, relation: NeighboringRelation, epsilon: float, delta: float
    ) -> float:
        """Return log(ε/``epsilon``) about as this accountant sees it; see ``SolvesNoise``."""
        found, _ = best_order(event, relation, delta, CANONNE)
        return math.log(max(found, 1e-300) / epsilon)


def is_dense(order: float, up_to: float) -> bool:
    """Whether dp-accounting's list is kept to where its best order is ``order``."""
    return _SPARSE_BELOW < order < up_to


def more_orders(exact: float) -> tuple[float, ...]:
    """Return orders where dp-accounting's list is thin.

    A small ε has its best order near 2·ln(1/δ)/ε, in the hundreds or thousands: those around
    ``exact``, and a thin list where that is NaN, not known.
    """
    near = orders_near(exact, _HIGHEST)
    if near:
        return near
    orders, order = list[float](), _THIN_FROM
    while order < _HIGHEST:
        orders.append(float(round(order)))
        order *= _RATIO
    return tuple(orders)
