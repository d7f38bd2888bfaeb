"""What the audit of a finished run says: how many coins were guessed, and what that refutes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsgd.accounting import privacy_profile
from dpsgd.auditing.curves import curve_of_deltas
from dpsgd.auditing.guesses import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    guess,
    refutes,
)
from dpsgd.auditing.settings import GradientAudit
from dpsgd.experiment.plan import Plan
from dpsgd.training.canaries import Canaries, CanaryUnits

GRADIENT = "gradient"
"""The kind of canary that is a gradient, in ``audit.parquet``."""
_POINTS = 400
"""Of the privacy profile that a run is held to."""


def canaries_of(plan: Plan) -> Canaries | None:
    """Return the canaries of a cell that is audited by them. Raises ConfigError if none fit."""
    prepared = plan.prepared
    audit = prepared.cell.audit
    if not isinstance(audit, GradientAudit):
        return None
    like = {n: p.detach() for n, p in prepared.model.named_parameters() if p.requires_grad}
    sampler = prepared.sampler
    parts = len(prepared.bundle.train) if sampler.combine is None else len(prepared.bundle.users)
    units = CanaryUnits.of(parts, audit.canaries, like, prepared.groups, prepared.streams)
    q = sampler.sampling_probability
    return Canaries(units, like, 1.0 if q is None else q, plan.noise_multiplier)


def audit_rows(canaries: Canaries) -> list[dict[str, Any]]:
    """Return rows of ``schema.AUDIT``: every canary's coin and score."""
    pairs = zip(canaries.units.included.tolist(), canaries.scores.tolist(), strict=True)
    return [
        {"canary": i, "kind": GRADIENT, "included": coin, "score": score, "release": "private"}
        for i, (coin, score) in enumerate(pairs)
    ]


def audit_of(plan: Plan, canaries: Canaries) -> dict[str, Any]:
    """Return what ``cell.json`` says of the audit.

    ``audit_epsilon`` holds for any mechanism; ``audit_epsilon_gaussian`` assumes a trade-off curve
    of Gaussian shape. ``audit_refuted``: the coins were guessed better than the run's own curve, by
    its privacy loss distribution, allows.
    """
    prepared = plan.prepared
    audit = prepared.cell.audit
    if not isinstance(audit, GradientAudit):
        raise TypeError("a run with canaries has the settings of their audit")
    made = max(1, round(audit.guesses * audit.canaries))
    guesses = guess(canaries.scores.numpy(), canaries.units.included.numpy(), made)
    delta, significance = prepared.delta, audit.significance
    return {
        "audit": audit.name,
        "audit_canaries": guesses.canaries,
        "audit_guesses": guesses.made,
        "audit_correct": guesses.correct,
        "audit_significance": significance,
        "audit_epsilon": epsilon_of_guesses(guesses, delta, significance),
        "audit_epsilon_gaussian": gaussian_epsilon_of_guesses(guesses, delta, significance),
        "audit_refuted": refuted(plan, guesses, significance),
    }


def refuted(plan: Plan, guesses: Guesses, significance: float) -> bool:
    """Return whether so many right guesses refute the run's own privacy profile."""
    prepared = plan.prepared
    event = prepared.event(plan.noise_multiplier, plan.steps)
    epsilons = np.linspace(0.0, 4 * plan.epsilon, _POINTS)
    deltas = privacy_profile(event, prepared.cell.settings.relation, epsilons)
    return refutes(guesses, curve_of_deltas(epsilons.tolist(), deltas.tolist()), significance)
