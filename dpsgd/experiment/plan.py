"""A prepared cell with its noise: σ, the steps of its budget and ε, fixed before training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dpsgd.accounting import (
    PLD,
    PRV,
    RDP,
    Accountant,
    DpEvent,
    Moments,
    check_certified,
    largest_steps,
)
from dpsgd.clipping.checks import LARGEST
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.decisions import check_affordable
from dpsgd.experiment.prepared import Prepared
from dpsgd.experiment.remembered import Remembered
from dpsgd.experiment.schedule import Schedule
from dpsgd.noise import check_positive

COMPARED: dict[str, Accountant] = {
    "pld": PLD("pld", 1e-4), "rdp": RDP("rdp", None), "prv": PRV("prv", 1e-2),
    "moments": Moments("moments"),
}  # fmt: skip
"""The accountants whose ε every ledger shows beside the one that certifies."""


@dataclass(frozen=True)
class Plan:
    """A prepared cell with its noise: ``epsilon`` is that of ``steps``, fixed before training, and
    of the looks that are planned between them, wherever training is stopped.

    ``steps`` is below ``prepared.steps`` when the budget ends first. ``epsilons`` holds every
    accountant's ε, or why it refuses.
    """

    prepared: Prepared
    noise_multiplier: float
    steps: int
    epsilon: float
    epsilons: dict[str, float | str]

    @property
    def stopped_by(self) -> str:
        """``steps`` or ``budget``: what ends this run, if nothing ends it early."""
        return "steps" if self.steps == self.prepared.steps else "budget"


def solve(prepared: Prepared, cache: Path) -> Plan:
    """Solve σ for ε, or ε for σ and the steps that the budget allows. Raises ConfigError."""
    cell = prepared.cell
    if not cell.noised:
        return Plan(prepared, 0.0, prepared.steps, math.inf, {})
    sigma, steps = noise_and_steps(prepared, cache)
    check_scale(prepared, sigma)
    if not cell.private:
        return Plan(prepared, sigma, steps, math.inf, {})
    epsilons = epsilons_of(prepared, prepared.event(sigma, steps), cache)
    epsilon, target = float(epsilons[cell.accountant.name]), cell.settings.epsilon
    if target is not None and epsilon > target:
        raise PrivacyError(f"ε of {steps} steps is {epsilon}, above the budget {target}")
    check_certified(cell.accountant.name, epsilon, epsilons.get("pld"))
    return Plan(prepared, sigma, steps, epsilon, epsilons)


def epsilons_of(prepared: Prepared, event: DpEvent, cache: Path) -> dict[str, float | str]:
    """Return ε by the accountant that certifies, first, and by all others, or why they refuse.

    Of a released run that ε is computed, and taken from no ``cache``: whoever may write there could
    say any ε.
    """
    settings = prepared.cell.settings
    certifying, relation = prepared.cell.accountant, settings.relation
    certifies = certifying if settings.release else Remembered(certifying, cache)
    found: dict[str, float | str] = {
        certifying.name: certifies.epsilon(event, relation, prepared.delta)
    }
    for name, other in COMPARED.items():
        if name not in found:
            try:
                found[name] = Remembered(other, cache).epsilon(event, relation, prepared.delta)
            except ConfigError as error:
                found[name] = f"– ({error.allowed})"
    return found


def noise_and_steps(asked: Prepared | Schedule, cache: Path) -> tuple[float, int]:
    """Return σ and the steps that the budget allows, for a cell with noise. Raises ConfigError."""
    settings = asked.cell.settings
    accountant = Remembered(asked.cell.accountant, cache)
    target, sigma = settings.epsilon, settings.noise_multiplier
    if sigma is None:
        if target is None:
            raise ConfigError("epsilon", None, "give epsilon, or noise_multiplier, or both")
        check_affordable(
            asked.looks, asked.steps, accountant, settings.relation, target, asked.delta
        )
        sigma = accountant.calibrate(
            lambda s: asked.event(s, asked.steps), settings.relation, target, asked.delta
        )
        return sigma, asked.steps
    if target is None or math.isinf(target):
        return sigma, asked.steps
    steps = largest_steps(
        accountant, lambda t: asked.event(sigma, t), settings.relation, target,
        asked.delta, asked.steps,
    )  # fmt: skip
    if steps < 1:
        raise ConfigError(
            "noise_multiplier", sigma, f"one step already costs more than epsilon={target:g}; "
            "raise noise_multiplier or epsilon, or lower batch",
        )  # fmt: skip
    return sigma, steps


def check_noise(prepared: Prepared, cache: Path) -> None:
    """Raise ConfigError if no noise can be solved for, or the rule cannot live with it."""
    if prepared.cell.noised:
        check_scale(prepared, noise_and_steps(prepared, cache)[0])


def check_scale(prepared: Prepared, sigma: float) -> None:
    """Raise ConfigError or PrivacyError unless the rule has a finite, positive scale under σ."""
    rule, groups = prepared.rule, prepared.groups
    try:
        state = rule.bind(groups, sigma, prepared.sampler.expected_units)
    except ConfigError as error:
        raise error.under("clip") from None
    scales = check_positive("scale", rule.scale(state), groups)
    std = max(scales) * sigma / prepared.sampler.expected_units
    if std > LARGEST:
        raise ConfigError(
            "noise_multiplier", sigma, f"makes noise of {std:.1e}, and float32 holds no noise "
            f"above {LARGEST:g}; lower it, or clip.norm",
        )  # fmt: skip
