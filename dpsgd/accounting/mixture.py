"""dp-accounting's PLD without its loops in Python: a second where mixtures take a minute.

Its inverse of a mixture's privacy loss is a binary search, point by point. Here all points are
searched for at once, and ε by a root finder; everything else is dp-accounting's.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (dp-accounting ships no types)

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, MixtureGaussianPrivacyLoss
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]

_TABLE = 4096
_HALVINGS = 24
_HIGHEST, _TINY = 1e8, 1e-300


class QuickPLDAccountant(PLDAccountant):
    """``PLDAccountant``, quick at mixtures of Gaussians and at finding ε."""

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        if not (do_compose and isinstance(event, MixtureOfGaussiansDpEvent)):
            return super()._maybe_compose(event, count, do_compose)
        if event.standard_deviation == 0 or not any(event.sensitivities):
            return super()._maybe_compose(event, count, do_compose)
        # Whether the relation is one that the event is right for is dp-accounting's to say.
        refused = super()._maybe_compose(event, count, do_compose=False)
        if refused is None:
            grid = self._value_discretization_interval
            one = PrivacyLossDistribution(
                *(_pmf(event, kind, grid) for kind in (AdjacencyType.REMOVE, AdjacencyType.ADD))
            )
            self._pld = self._pld.compose(one.self_compose(count))
        return refused

    def get_epsilon(self, target_delta: float) -> float:
        """Return the least ε whose δ is at most ``target_delta``, to twelve digits and not below.

        dp-accounting walks down the losses one by one, and a wide loss has a million of them.
        """

        def excess(epsilon: float) -> float:
            return math.log(max(self.get_delta(epsilon), _TINY) / target_delta)

        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > _HIGHEST:  # an infinite loss is likelier than δ, or nearly so
                return super().get_epsilon(target_delta)
        if excess(0.0) <= 0:
            return 0.0
        root: Any = brentq  # its types would have a NumPy scalar
        found = root(excess, 0.0, high, xtol=1e-12 * high, rtol=1e-12)
        return float(found) * (1 + 4e-12) + 4e-12 * high


class _QuickLoss(MixtureGaussianPrivacyLoss):
    def _inverse_privacy_losses_with_range(
        self, privacy_losses: Floats, bounds: tuple[float, float], precision: float = 1e-6
    ) -> Floats:
        """Return x with loss(x) = each of ``privacy_losses``, the loss falling in x."""
        table = np.linspace(*bounds, _TABLE)
        losses = self._losses(table)
        # The loss falls, so that the table is searched from its end.
        after = _TABLE - np.searchsorted(losses[::-1], privacy_losses, side="right")
        low = table[np.clip(after - 1, 0, _TABLE - 1)]
        high = table[np.clip(after, 0, _TABLE - 1)]
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            left = self._losses(middle) > privacy_losses
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        return high

    def _losses(self, x: Floats) -> Floats:
        sign = 1.0 if self.adjacency_type == AdjacencyType.REMOVE else -1.0
        slopes = np.asarray(self.sensitivities) / self._variance
        logs = self._precompute_privacy_loss_constants - sign * np.multiply.outer(x, slopes)
        top = logs.max(axis=-1)
        return sign * (top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


def _pmf(event: MixtureOfGaussiansDpEvent, kind: AdjacencyType, grid: float) -> Any:
    loss: Any = _QuickLoss(
        event.standard_deviation, event.sensitivities, event.sampling_probs, adjacency_type=kind
    )
    bounds = loss.connect_dots_bounds()
    low, high = math.floor(bounds.epsilon_lower / grid), math.ceil(bounds.epsilon_upper / grid)
    deltas = loss.get_delta_for_epsilon(np.arange(low, high + 1) * grid)
    return create_pmf_pessimistic_connect_dots_fixed_gap(grid, low, high, deltas)
