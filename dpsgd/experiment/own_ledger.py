"""The ledger of a private loop of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsgd.accounting import estimates, neighbours_text
from dpsgd.errors import PrivacyError
from dpsgd.experiment.files import read_json
from dpsgd.experiment.ledger.content import LEDGER_VERSION, certificate, envelope_of
from dpsgd.experiment.ledger.entries import step_entries
from dpsgd.experiment.ledger.environment import code_state, environment
from dpsgd.experiment.ledger.not_covered import not_finite
from dpsgd.experiment.ledger.words import (
    FLOATING_POINT,
    FLOATING_POINT_RELEASED,
    FROM_THE_SYSTEM,
    KEYING,
    NEIGHBOURS,
    SEEDED_LOOP,
)
from dpsgd.experiment.parts import plain
from dpsgd.experiment.telemetry_words import NO_TELEMETRY

if TYPE_CHECKING:
    from dpsgd.experiment.own_loop import PrivateTraining

OWN_LOOP = "own loop"
"""The result version of a ledger whose loop is not this project's."""


def check_another(file: Path, ledger: Mapping[str, Any]) -> None:
    """Raise PrivacyError if ``file`` is the ledger of another release, which would be forgotten."""
    stored = read_json(file)
    if isinstance(stored, dict) and stored.get("stream_id") != ledger["stream_id"]:
        raise PrivacyError(
            f"{file} is the ledger of another release: its ε = {stored.get('epsilon')} would be "
            "forgotten, and on the same data the two add up. Give each a folder of its own, or "
            "remove that one if nothing from it was released"
        )


def own_ledger(training: PrivateTraining) -> dict[str, Any]:
    """Return the ledger, complete before the first step: its entries cover all steps."""
    budget, sampler = training.budget, training.sampler
    return {
        "ledger_version": LEDGER_VERSION, "run_key": training.streams.run_key,
        "mechanism": "private", "private": True, "release": False,
        "unit": sampler.unit, "unit_name": sampler.unit, "relation": budget.relation,
        "neighbours": f"{neighbours_text(budget.relation, sampler.unit)}. {NEIGHBOURS}",
        "n_units": sampler.n_units, "n_units_declared": "public", "delta": training.delta,
        "delta_why": "configured" if budget.delta else "n_units^-1.1, rounded down to one digit",
        "epsilon": training.epsilon, "epsilon_target": budget.epsilon,
        "noise_multiplier": training.noise_multiplier,
        **certificate(training.accountant),
        "epsilon_by_accountant": {training.accountant.name: training.epsilon},
        "epsilon_estimates": estimates(
            sampler.event(training.noise_multiplier, budget.steps), training.delta
        )
        if budget.relation == "add_or_remove_one"
        else {},
        "clip_rule": plain(training.rule),
        **envelope_of(training.rule, training.state, training.groups.names, private=True),
        "sampler": {
            **plain(training.sampling), **sampler.facts,
            "sampling_probability": sampler.sampling_probability,
            "expected_units": sampler.expected_units, "stated": sampler.stated,
        },
        "telemetry": NO_TELEMETRY,
        "common_noise": False,
        "steps_planned": budget.steps, "steps": budget.steps, "stopped_by": "steps",
        "entries": step_entries(
            training.rule, training.state, sampler, training.noise_multiplier, budget.steps,
            training.streams.stream_id, budget.relation,
        ),
        "not_covered": [
            "everything that the surrounding loop shows or decides from the data: losses, "
            "early stopping, models chosen by their accuracy, evaluation",
            not_finite(training.engine),
            "hyper-parameters chosen by looking at other runs on the same data",
            "other runs on the same data: ε is of this run alone",
        ],
        "slice_statistics": {"telemetry": "off", "where": [], "release": None},
        "data": "not known",
        "data_statistics": ["whatever was done to the data before they came here is not known"],
        "data_fingerprint": "not known", "stream_id": training.streams.stream_id,
        "randomness": SEEDED_LOOP if training.seeded else FROM_THE_SYSTEM, "keying": KEYING,
        "floating_point": FLOATING_POINT if training.seeded else FLOATING_POINT_RELEASED,
        "environment": environment(training.device),
        "code": code_state(), "own_code": {},
        "result_version": OWN_LOOP, "config_hash": training.streams.run_key,
    }  # fmt: skip
