"""The moments accountant: Rényi DP with the older conversion, which published numbers often are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsgd.accounting.accountant import Relation, checked_delta, neighbouring_relation
from dpsgd.accounting.calibration import SolvesNoise
from dpsgd.accounting.library import DpEvent, NeighboringRelation, default_orders, moments_epsilon
from dpsgd.accounting.proved import proved_event
from dpsgd.accounting.rdp import RENYI, SPARSE_ABOVE, is_dense, more_orders
from dpsgd.accounting.renyi import MIRONOV, best_order


@dataclass(frozen=True)
class Moments(SolvesNoise):
    """Abadi et al. (CCS 2016), as Rényi DP: ε = min_α RDP(α) + ln(1/δ)/(α − 1) (Mironov, 2017).

    An upper bound, looser than ``rdp``: for comparison with older papers and tutorials.
    """

    certifies: ClassVar[bool] = True
    name: str

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return an upper bound on ε; see :meth:`Accountant.epsilon`.

        Raises:
            ConfigError: also for an event and relation not in ``RENYI``, as ``RDP`` does.

        """
        neighbours, delta = neighbouring_relation(relation), checked_delta(delta)
        event = proved_event(self.name, event, relation, RENYI)
        epsilon, order = moments_epsilon(event, neighbours, delta, default_orders())
        if is_dense(order, SPARSE_ABOVE):
            return epsilon
        _, exact = best_order(event, neighbours, delta, MIRONOV)
        return min(epsilon, moments_epsilon(event, neighbours, delta, more_orders(exact))[0])

    def excess(
        self, event: DpEvent, relation: NeighboringRelation, epsilon: float, delta: float
    ) -> float:
        """Return log(ε/``epsilon``) about as this accountant sees it; see ``SolvesNoise``."""
        found, _ = best_order(event, relation, delta, MIRONOV)
        return math.log(max(found, 1e-300) / epsilon)
