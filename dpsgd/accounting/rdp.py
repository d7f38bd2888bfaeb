"""Accounting by Rényi differential privacy: looser than PLD, and quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpsgd.accounting.accountant import Relation, checked_delta, neighbouring_relation
from dpsgd.accounting.calibration import SolvesNoise
from dpsgd.accounting.library import DpEvent, default_orders, rdp_epsilon
from dpsgd.accounting.proved import COUNTED_OR_NOT, Proved, proved_event
from dpsgd.errors import ConfigError

_DENSE_BELOW = 40.0
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
        if order < _DENSE_BELOW:
            return epsilon
        return min(epsilon, rdp_epsilon(event, neighbours, delta, tuple(high_orders()))[0])


def high_orders() -> list[float]:
    """Return orders between and beyond the last of dp-accounting's, which thin out after 63.

    A small ε has its best order near 2·ln(1/δ)/ε, in the hundreds or thousands.
    """
    orders, order = list[float](), _DENSE_BELOW
    while order < _HIGHEST:
        orders.append(float(round(order)))
        order *= _RATIO
    return orders
