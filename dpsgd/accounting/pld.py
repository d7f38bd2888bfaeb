"""Accounting by privacy loss distributions: tight, and right for all three relations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsgd.accounting.accountant import Relation, checked_delta, neighbouring_relation
from dpsgd.accounting.calibration import SolvesNoise
from dpsgd.accounting.library import DpEvent, pld_epsilon
from dpsgd.accounting.loss import LossSize, loss_size
from dpsgd.accounting.proved import ALL, COUNTED_OR_NOT, IN_PLACE, Proved, proved_event
from dpsgd.errors import ConfigError

_STEP_POINTS = 2**17
_RUN_POINTS = 2**22
_COARSEST = 1.0
PROVED: Proved = {
    "gaussian": ALL,
    "poisson": ALL,
    "truncated": ALL,
    "mixture": COUNTED_OR_NOT,
    "fixed": IN_PLACE,
}


@dataclass(frozen=True)
class PLD(SolvesNoise):
    """Privacy loss distributions (Sommer et al., 2019; Doroshenko et al., 2022).

    Attributes:
        name: the word printed beside ε.
        grid: the spacing of the privacy losses, in nats. A wider one overstates ε more. The
            spacing used is finer where the losses are small, and coarser where they are so
            large that this many points would not fit into memory.

    """

    certifies: ClassVar[bool] = True
    name: str
    grid: float

    def __post_init__(self) -> None:
        if not 0 < self.grid <= _COARSEST:
            raise ConfigError("grid", self.grid, f"a spacing with 0 < grid <= {_COARSEST:g}")

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return an upper bound on ε; see :meth:`Accountant.epsilon`.

        Raises:
            ConfigError: also for an event and relation not in ``PROVED``, for a δ below what
                double precision resolves over so many steps, and for noise so small that no
                sensible grid spans the loss of one step.

        """
        neighbours, delta = neighbouring_relation(relation), checked_delta(delta)
        event = proved_event(self.name, event, relation, PROVED)
        size = loss_size(event, neighbours)
        check_resolution(self.name, delta, size.steps)
        return pld_epsilon(event, neighbours, delta, spacing(size, self.grid))


def check_resolution(name: str, delta: float, steps: float) -> None:
    """Raise where the rounding of the Fourier transform, about 1e-16 a step, is felt in δ.

    Against the exact ε of plain Gaussians, ε at the limit is off by less than 1e-4 of itself.
    """
    smallest = max(1e-10, 1e-14 * steps)
    if delta < smallest:
        allowed = f"at least {smallest:.1g} for accountant={name} over {steps:.0f} steps"
        raise ConfigError("delta", delta, allowed, "accountant=rdp has no such limit")


def spacing(size: LossSize, grid: float) -> float:
    """Return the spacing of losses: continuous in the noise, so that ε has no jumps.

    Rounding adds at most spacing²/4 to the variance of each step. A tenth of one step's
    deviation keeps that below 0.3 %, a thousandth of the whole deviation resolves small ε.
    """
    deviation = math.sqrt(size.variance)
    if deviation == 0:
        return grid
    fine = min(grid, deviation / 1000, deviation / math.sqrt(size.steps) / 10)
    # A composition reaches 8.5 deviations to each side, and a few spans where it is not normal.
    width = 17 * deviation + 4 * size.span
    coarse = max(size.span / _STEP_POINTS, width / _RUN_POINTS)
    if coarse > _COARSEST:
        allowed = "too small for accountant=pld, which resolves an epsilon up to about 1e6"
        hint = f"the expected privacy loss is {size.mean:.3g} nats; accountant=rdp has no limit"
        raise ConfigError("noise_multiplier", "(from the event)", allowed, hint)
    return max(fine, coarse)
