"""The moments accountant: Rényi DP with the older conversion, which published numbers often are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpsgd.accounting.accountant import Relation, checked_delta, neighbouring_relation
from dpsgd.accounting.calibration import SolvesNoise
from dpsgd.accounting.library import DpEvent, default_orders, moments_epsilon
from dpsgd.accounting.proved import proved_event
from dpsgd.accounting.rdp import RENYI, high_orders


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
        orders = (*default_orders(), *high_orders())
        return moments_epsilon(event, neighbours, delta, orders)
