"""The σ, or the number of steps, that spends a target ε and no more."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import ClassVar

from dpsgd.accounting.accountant import (
    Accountant,
    Relation,
    checked_delta,
    checked_target,
    neighbouring_relation,
)
from dpsgd.accounting.bracket import Bracket
from dpsgd.accounting.library import DpEvent, NeighboringRelation
from dpsgd.accounting.start import LOG_SIGMA, Excess, start
from dpsgd.accounting.tilted import excess_delta
from dpsgd.errors import ConfigError

TOLERANCE = 1e-3
"""How far below its target, relatively, the ε of a solved σ may lie. It is never above."""

_EVALUATIONS = 40


def solve_noise(
    accountant: Accountant,
    make_event: Callable[[float], DpEvent],
    relation: Relation,
    epsilon: float,
    delta: float,
    excess: Excess = excess_delta,
) -> float:
    """Return σ with ε(σ) in ``[epsilon * (1 - TOLERANCE), epsilon]``, as ``accountant`` sees it.

    ``make_event`` maps a noise multiplier to an event whose ε falls with it. The search starts
    where the estimate ``excess`` is zero, asks it for what corrects the accountant's first answer,
    and goes on by secants in log σ on log ε: one to three evaluations, mostly. The σ returned is
    one whose ε was evaluated.

    Raises:
        ConfigError: a target that is not finite and positive, or that no σ meets.

    """
    target, delta = checked_target(epsilon), checked_delta(delta)
    neighbours = neighbouring_relation(relation)
    aim = target * (1 - TOLERANCE / 2)
    bracket = Bracket()
    log_sigma = start(make_event, neighbours, aim, delta, excess)
    sigma, spent = math.exp(log_sigma), math.nan
    for evaluation in range(_EVALUATIONS):
        sigma = math.exp(log_sigma)
        spent = accountant.epsilon(make_event(sigma), relation, delta)
        if target * (1 - TOLERANCE) <= spent <= target:
            return sigma
        bracket.add(log_sigma, _log_ratio(spent, aim))
        if bracket.width < 1e-9 or bracket.low > LOG_SIGMA[1]:
            break
        log_sigma = bracket.propose()
        if evaluation == 0 and 0 < spent < math.inf:
            log_sigma = start(make_event, neighbours, aim * aim / spent, delta, excess)
    hint = f"the last noise multiplier tried, {sigma:.6g}, has epsilon={spent:.6g}"
    raise ConfigError("epsilon", epsilon, "no noise multiplier meets this target", hint)


class SolvesNoise(abc.ABC):
    """Gives an accountant ``calibrate`` by ``solve_noise``."""

    certifies: ClassVar[bool]
    name: str

    @abc.abstractmethod
    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return an upper bound on ε; see :meth:`Accountant.epsilon`."""

    def excess(
        self, event: DpEvent, relation: NeighboringRelation, epsilon: float, delta: float
    ) -> float:
        """Return an estimate to start from: about the log of what is spent over the target.

        That of the true δ; an accountant that lies far above it says what it will find itself.
        """
        return excess_delta(event, relation, epsilon, delta)

    def calibrate(
        self,
        make_event: Callable[[float], DpEvent],
        relation: Relation,
        epsilon: float,
        delta: float,
    ) -> float:
        """Return the noise multiplier that spends ``epsilon``; see :meth:`Accountant.calibrate`."""
        return solve_noise(self, make_event, relation, epsilon, delta, self.excess)


def largest_steps(
    accountant: Accountant,
    make_event: Callable[[int], DpEvent],
    relation: Relation,
    epsilon: float,
    delta: float,
    steps: int,
) -> int:
    """Return the largest T ≤ ``steps`` for which the ε of ``make_event(T)`` is ≤ ``epsilon``.

    0 if not even one step fits. T was evaluated and fits, T + 1 was evaluated and does not.

    Raises:
        ConfigError: a target that is not finite and positive, or fewer than 0 steps.

    """
    target = checked_target(epsilon)
    if steps < 0:
        raise ConfigError("steps", steps, "a whole number >= 0")

    def room(count: int) -> float:
        return -_log_ratio(accountant.epsilon(make_event(count), relation, delta), target)

    if steps == 0:
        return 0
    left = room(steps)
    return steps if left >= 0 else _last_fit(room, steps, left)


def _last_fit(room: Callable[[int], float], steps: int, left: float) -> int:
    """Return the last count below ``steps`` with room ≥ 0, given that ``steps`` has none."""
    bracket = Bracket()
    bracket.add(math.log(steps), left)
    fits, exceeds = 0, steps
    while exceeds - fits > 1:
        count = min(max(int(math.exp(bracket.propose())), fits + 1), exceeds - 1)
        left = room(count)
        if left >= 0:
            fits = count
        else:
            exceeds = count
        bracket.add(math.log(count), left)
    return fits


def _log_ratio(spent: float, aim: float) -> float:
    return math.log(spent / aim) if spent > 0 else -math.inf
