"""The privacy ledger of a run: what is released, what it costs, and what ε does not cover."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dpsgd.accounting import Accountant, estimates, neighbours_text
from dpsgd.clipping.rule import ClipRule, State
from dpsgd.experiment.canaries import audit_block
from dpsgd.experiment.identity import (
    cell_config,
    infinities_as_words,
    named_data,
    own_code_of,
)
from dpsgd.experiment.ledger.decisions import decisions_block, looks_entries, neighbours_besides
from dpsgd.experiment.ledger.entries import ENVELOPE, step_entries
from dpsgd.experiment.ledger.environment import beginning, code_state
from dpsgd.experiment.ledger.not_covered import not_covered, slice_statistics
from dpsgd.experiment.ledger.words import (
    CONVERSION,
    FLOATING_POINT,
    FLOATING_POINT_RELEASED,
    KEYING,
    KEYING_RELEASED,
    NEIGHBOURS,
    RELEASED,
    SEEDED,
    SHARED,
)
from dpsgd.experiment.parts import plain
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.releasing import stated_notes
from dpsgd.experiment.settings import Cell
from dpsgd.experiment.telemetry_words import telemetry_cost
from dpsgd.experiment.version import RESULT_VERSION

LEDGER_VERSION = 2
"""Raised whenever a reader of ledgers must know that they changed."""


def ledger_of(plan: Plan) -> dict[str, Any]:
    """Return the ledger, complete before the first step: its entries cover all planned steps."""
    prepared, cell = plan.prepared, plan.prepared.cell
    settings = cell.settings
    rule, expected = prepared.rule, prepared.sampler.expected_units
    state = rule.bind(prepared.groups, plan.noise_multiplier, expected)
    return {
        "ledger_version": LEDGER_VERSION,
        "run_key": prepared.run_key,
        "mechanism": settings.mechanism,
        "private": cell.private,
        "release": settings.release,
        "unit": prepared.sampler.unit,
        "unit_name": settings.unit_name or prepared.sampler.unit,
        "relation": settings.relation,
        "neighbours": f"{neighbours_text(settings.relation, prepared.sampler.unit)}. {NEIGHBOURS}"
        + neighbours_besides(prepared.looks),
        "n_units": prepared.sampler.n_units,
        "n_units_declared": "public",
        "delta": prepared.delta,
        "delta_why": prepared.delta_why,
        "epsilon": infinities_as_words(plan.epsilon),
        "epsilon_target": infinities_as_words(settings.epsilon),
        "noise_multiplier": plan.noise_multiplier,
        **certificate(cell.accountant if cell.private else None),
        "epsilon_by_accountant": infinities_as_words(plan.epsilons),
        "epsilon_estimates": _estimates(plan),
        "clip_rule": plain(cell.clip),
        **envelope_of(rule, state, prepared.groups.names, private=cell.private),
        "sampler": {
            **plain(cell.sampling),
            **prepared.sampler.facts,
            "sampling_probability": prepared.sampler.sampling_probability,
            "expected_units": prepared.sampler.expected_units,
            "stated": prepared.sampler.stated,
        },
        "telemetry": telemetry_cost(rule, cell.telemetry, plan.noise_multiplier),
        **decisions_block(prepared.looks, plan.steps),
        **audit_block(cell),
        "steps_planned": prepared.steps,
        "steps": plan.steps,
        "stopped_by": plan.stopped_by,
        "entries": training_entries(plan),
        "not_covered": not_covered(plan),
        "slice_statistics": slice_statistics(cell, prepared.bundle),
        "data": cell.data.name,
        "data_statistics": stated_notes(cell, prepared.bundle),
        "data_fingerprint": named_data(cell, prepared.bundle.fingerprint),
        "stream_id": prepared.streams.stream_id,
        "common_noise": cell.debug.common_noise,
        **_randomness(cell),
        "environment": beginning(settings.device, prepared.model),
        "code": code_state(),
        "own_code": own_code_of(cell),
        "result_version": RESULT_VERSION,
        "config_hash": config_hash(cell_config(cell)),
    }


def certificate(accountant: Accountant | None) -> dict[str, Any]:
    """Return which accountant certifies, with its settings and its conversion; None for nobody."""
    if accountant is None:
        return {"certified_by": None, "accountant": None, "conversion": None}
    return {
        "certified_by": accountant.name,
        "accountant": plain(accountant),
        "conversion": CONVERSION.get(accountant.name, "as that accountant states"),
    }


def envelope_of(
    rule: ClipRule, state: State, groups: tuple[str, ...], *, private: bool
) -> dict[str, Any]:
    """Return the clip groups, the scales that they start from, and the shares of the envelope."""
    return {
        "clip_groups": list(groups),
        "scale": infinities_as_words(rule.scale(state).tolist()),
        "query_scale": infinities_as_words(rule.query_scale(state).tolist()),
        "envelope": ENVELOPE if private else None,
        "shares": dict(rule.shares(state)) if private else {},
    }


def config_hash(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a resolved configuration, as ``config.yaml`` holds it."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()


def _randomness(cell: Cell) -> dict[str, str]:
    if cell.settings.release:
        words = RELEASED, KEYING_RELEASED, FLOATING_POINT_RELEASED
    else:
        seeded = f"{SEEDED} {SHARED}" if cell.debug.common_noise else SEEDED
        words = seeded, KEYING, FLOATING_POINT
    return dict(zip(("randomness", "keying", "floating_point"), words, strict=True))


def training_entries(plan: Plan) -> list[dict[str, Any]]:
    """Return the entries of all planned steps and looks; none without privacy."""
    prepared, cell = plan.prepared, plan.prepared.cell
    if not cell.private:
        return []
    state = prepared.rule.bind(
        prepared.groups, plan.noise_multiplier, prepared.sampler.expected_units
    )
    stream, relation = prepared.streams.stream_id, cell.settings.relation
    steps = step_entries(
        prepared.rule, state, prepared.sampler, plan.noise_multiplier, plan.steps, stream, relation
    )
    return steps + looks_entries(prepared.looks, plan.steps, stream, relation)


def _estimates(plan: Plan) -> dict[str, float]:
    """Return what papers quote for such a run; only under add-or-remove-one."""
    prepared = plan.prepared
    settings = prepared.cell.settings
    if not prepared.cell.private or settings.relation != "add_or_remove_one":
        return {}
    event = prepared.event(plan.noise_multiplier, plan.steps)
    return infinities_as_words(estimates(event, prepared.delta))
