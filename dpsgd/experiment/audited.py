"""What the audit of a finished run says: how many coins were guessed, and what that refutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsgd.accounting import DpEvent, Relation, privacy_profile
from dpsgd.auditing.curves import Curve, curve_of_deltas
from dpsgd.auditing.guesses import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    guess,
    refutes,
)
from dpsgd.auditing.power import all_right, reach
from dpsgd.auditing.settings import CanaryAudit, GradientAudit, MembershipAudit
from dpsgd.experiment.canaries import records_of_each
from dpsgd.experiment.ledger.repeats import first_streams
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.recorded import losses_of, record_guesses, record_metrics, record_rows
from dpsgd.experiment.remembered import remembered_profile
from dpsgd.training.canaries import Canaries, CanaryUnits

Profile: TypeAlias = Callable[[DpEvent, Relation, NDArray[np.float64]], NDArray[np.float64]]
"""Gives δ at each of some ε."""

GRADIENT = "gradient"
"""The kind of canary that is a gradient, in ``audit.parquet``."""
_BOUNDS = (
    "audit_epsilon", "audit_epsilon_gaussian", "audit_reach", "audit_refuted",
    "audit_could_refute",
)  # fmt: skip
_POINTS = 100
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
    # The coins of an attempt that goes on under a new key are those that it began with.
    coins = first_streams(prepared.streams)
    units = CanaryUnits.of(parts, audit.canaries, like, prepared.groups, coins,
                           records_of_each(prepared.cell))  # fmt: skip
    return Canaries(units, like, sampler.sampling_probability, plan.noise_multiplier)


@dataclass(frozen=True)
class Audited:
    """What a run leaves of its audit: rows of ``schema.AUDIT`` and of ``schema.CELL_METRICS``, and
    what ``cell.json`` says.
    """

    rows: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    summary: dict[str, Any]


def audited(plan: Plan, canaries: Canaries | None, cache: Path) -> Audited | None:
    """Return what the audit of a trained cell found; None without one. ``cache`` is the folder of
    accountants' answers.
    """
    prepared = plan.prepared
    audit = prepared.cell.audit
    if canaries is not None and isinstance(audit, GradientAudit):
        made = max(1, round(audit.guesses * audit.canaries))
        guesses = guess(canaries.reading.scores.numpy(), canaries.units.included.numpy(), made)
        return Audited(audit_rows(canaries), [], _summary(plan, audit, guesses, cache))
    if prepared.coins is None or not isinstance(audit, CanaryAudit | MembershipAudit):
        return None
    losses = losses_of(prepared, prepared.coins)
    metrics = list(record_metrics(losses, prepared.streams.numpy("evaluation", plan.steps + 1)))
    rows = record_rows(losses, prepared.bundle.train.example)
    return Audited(rows, metrics, _summary(plan, audit, record_guesses(losses, audit), cache))


def audit_rows(canaries: Canaries) -> list[dict[str, Any]]:
    """Return rows of ``schema.AUDIT``: every canary's coin and score."""
    pairs = zip(canaries.units.included.tolist(), canaries.reading.scores.tolist(), strict=True)
    return [
        {"canary": i, "kind": GRADIENT, "included": coin, "score": score, "release": "private"}
        for i, (coin, score) in enumerate(pairs)
    ]


def _summary(
    plan: Plan, audit: GradientAudit | CanaryAudit | MembershipAudit, guesses: Guesses, cache: Path
) -> dict[str, Any]:
    """Return what ``cell.json`` says of the audit.

    ``audit_epsilon`` holds for any mechanism; ``audit_epsilon_gaussian`` assumes a trade-off curve
    of Gaussian shape; ``audit_reach`` is the larger of both for as many guesses, all of them right.
    ``audit_refuted``: the coins were guessed better than the run's own curve, by
    its privacy loss distribution, allows; ``audit_could_refute``: as many guesses, all of them
    right, would be better than that. Both are null for a run without ε, and all of these where a
    coin is of a record and a unit is a user who brings several.
    """
    delta, significance = plan.prepared.delta, audit.significance
    if not _coins_of_units(plan, audit):
        return _counts(audit, guesses) | dict.fromkeys(_BOUNDS)
    return (
        _counts(audit, guesses)
        | {
            "audit_epsilon": epsilon_of_guesses(guesses, delta, significance),
            "audit_epsilon_gaussian": gaussian_epsilon_of_guesses(guesses, delta, significance),
            "audit_reach": reach(guesses, delta, significance).largest,
        }
        | _verdicts(plan, guesses, significance, cache)
    )


def _coins_of_units(plan: Plan, audit: GradientAudit | CanaryAudit | MembershipAudit) -> bool:
    """Whether a coin adds or removes what one unit, or less, contributes on its own.

    A record that joins a user's others changes the one gradient of that user, which may move by
    twice the bound: a user is put in another's place then, and no claim about users who come or go
    speaks of that. The coins of one user's records are not of different units either.
    """
    return isinstance(audit, GradientAudit) or plan.prepared.sampler.combine is None


def _counts(
    audit: GradientAudit | CanaryAudit | MembershipAudit, guesses: Guesses
) -> dict[str, Any]:
    return {
        "audit": audit.name,
        "audit_canaries": guesses.canaries,
        "audit_guesses": guesses.made,
        "audit_correct": guesses.correct,
        "audit_significance": audit.significance,
    }


def claimed_curve(
    event: DpEvent, relation: Relation, epsilon: float, profile: Profile = privacy_profile
) -> Curve:
    """Return the trade-off curve of ``event``, by its privacy profile; ``epsilon`` says over which
    losses that is of interest.
    """
    epsilons = np.linspace(0.0, 4 * epsilon, _POINTS)
    deltas = profile(event, relation, epsilons)
    return curve_of_deltas(epsilons.tolist(), deltas.tolist())


def _verdicts(plan: Plan, guesses: Guesses, significance: float, cache: Path) -> dict[str, Any]:
    """Return whether so many right guesses refute the run's own profile, and whether any could."""
    if not plan.prepared.cell.private:
        return {"audit_refuted": None, "audit_could_refute": None}
    event = plan.prepared.event(plan.noise_multiplier, plan.steps)
    relation = plan.prepared.cell.settings.relation
    curve = claimed_curve(event, relation, plan.epsilon, partial(remembered_profile, cache))
    return {
        "audit_refuted": refutes(guesses, curve, significance),
        "audit_could_refute": refutes(all_right(guesses), curve, significance),
    }
