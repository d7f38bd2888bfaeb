"""Accounting by privacy random variables: as tight as PLD up to an error that is set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpsgd.accounting.accountant import Relation, checked_delta, neighbouring_relation
from dpsgd.accounting.calibration import SolvesNoise
from dpsgd.accounting.library import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    canonne_epsilon,
    default_orders,
    renyi_curve,
)
from dpsgd.accounting.loss import loss_points
from dpsgd.accounting.pld import check_resolution
from dpsgd.accounting.proved import COUNTED_OR_NOT, Proved, proved_event
from dpsgd.accounting.prv_library import Release, grid_spacing, prv_epsilon
from dpsgd.accounting.renyi import CANONNE, best_order
from dpsgd.accounting.tilted import excess_delta
from dpsgd.errors import ConfigError

_MOST_POINTS = 2**19
_FARTHEST = 1e4
_DELTA_ERROR = 1e-3
_HOPELESS = 100.0

_PROVED: Proved = {
    "gaussian": COUNTED_OR_NOT,
    "poisson": COUNTED_OR_NOT,
    "fixed": ("replace_special",),
}


@dataclass(frozen=True)
class PRV(SolvesNoise):
    """Privacy random variables (Gopi, Lee and Wutschitz, NeurIPS 2021); ε is their upper bound.

    For Poisson draws and whole batches of Gaussian releases. ε lies about ``error`` of itself
    above the true one, and more where so fine a grid would not fit: many steps at small ε.

    Attributes:
        name: the word printed beside ε.
        error: the error that is allowed in ε, as a part of it.

    """

    certifies: ClassVar[bool] = True
    name: str
    error: float

    def __post_init__(self) -> None:
        if not 0 < self.error <= 1:
            raise ConfigError("error", self.error, "a part of epsilon, with 0 < error <= 1")

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return an upper bound on ε; see :meth:`Accountant.epsilon`.

        Raises:
            ConfigError: also for replace-one, for whatever is not a Gaussian release of a Poisson
                draw or of everyone, for a δ that double precision does not resolve, and for an
                ε above 10,000.

        """
        neighbours, delta = neighbouring_relation(relation), checked_delta(delta)
        event = proved_event(self.name, event, relation, _PROVED)
        counts = dict[tuple[float, float], float]()
        for q, sigma, count in self._releases(event, 1):
            if sigma == 0:
                return math.inf
            counts[q, sigma] = counts.get((q, sigma), 0) + count
        releases = [Release(q, sigma, int(count)) for (q, sigma), count in counts.items()]
        if not releases:
            return 0.0
        steps = sum(release.count for release in releases)
        check_resolution(self.name, delta, steps)
        return self._upper(releases, neighbours, delta)

    def _upper(self, releases: list[Release], relation: NeighboringRelation, delta: float) -> float:
        delta_error = delta * _DELTA_ERROR
        about, reach = _size(releases, relation, delta, delta_error)
        if not reach < _FARTHEST:
            raise self._unable("an epsilon above 10,000")
        counts = [1 if release.q == 1 else release.count for release in releases]
        error = self._error(about, reach, counts, delta_error)
        return prv_epsilon(releases, delta, error, delta_error, reach)

    def _error(self, about: float, reach: float, counts: list[int], delta_error: float) -> float:
        """Return the error in ε: as set, or what the largest grid allows; both give a bound."""
        least = 2 * reach / (_MOST_POINTS * grid_spacing(counts, 1.0, delta_error))
        return max(self.error * about, least)

    def excess(
        self, event: DpEvent, relation: NeighboringRelation, epsilon: float, delta: float
    ) -> float:
        """Return about the log of δ over ``delta`` at what the error leaves of ``epsilon``."""
        about, _ = best_order(event, relation, delta, CANONNE)
        steps = [max(1, int(count)) for count, _, _ in loss_points(event, relation)]
        if not (steps and math.isfinite(about)):
            return math.nan
        delta_error = delta * _DELTA_ERROR
        error = self._error(max(about, 0.0), 1.5 * about + 3, steps, delta_error)
        if error >= epsilon:
            return _HOPELESS + math.log(error / epsilon)
        return excess_delta(event, relation, epsilon - error, delta - delta_error)

    def _releases(self, event: DpEvent, count: int) -> Iterator[tuple[float, float, float]]:
        """Yield sampling probability, noise multiplier and count of each Gaussian release."""
        if isinstance(event, SelfComposedDpEvent):
            yield from self._releases(event.event, count * event.count)
        elif isinstance(event, ComposedDpEvent):
            for part in event.events:
                yield from self._releases(part, count)
        elif isinstance(event, GaussianDpEvent):
            yield 1.0, float(event.noise_multiplier), count
        elif isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent):
            yield float(event.sampling_probability), float(event.event.noise_multiplier), count
        elif isinstance(event, NonPrivateDpEvent):
            yield 1.0, 0.0, count
        elif not isinstance(event, NoOpDpEvent):
            raise self._unable(f"this event: {type(event).__name__}")

    def _unable(self, what: str) -> ConfigError:
        return ConfigError(
            "accountant", self.name, f"cannot account for {what}; use accountant=pld"
        )


def _size(
    releases: list[Release], relation: NeighboringRelation, delta: float, delta_error: float
) -> tuple[float, float]:
    """Return ε by Rényi DP, and how far the losses must be followed for δ to be within its error.

    The latter is the package's own rule (Remark 5.6), with more Rényi orders.
    """
    orders = default_orders()
    curves = [renyi_curve(_event(release), relation, orders) for release in releases]
    steps = sum(release.count for release in releases)
    total = np.sum([r.count * c for r, c in zip(releases, curves, strict=True)], axis=0)
    about = canonne_epsilon(orders, total, delta)[0]
    whole = canonne_epsilon(orders, total, delta_error / 4)[0]
    single = max(canonne_epsilon(orders, c, delta_error / 8 / steps)[0] for c in curves)
    return about, max(about, whole, single) + 3


def _event(release: Release) -> DpEvent:
    return PoissonSampledDpEvent(release.q, GaussianDpEvent(release.sigma))
