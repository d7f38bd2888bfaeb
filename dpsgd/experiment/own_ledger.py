"""The ledger of a private loop of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsgd.accounting import estimates
from dpsgd.experiment.ledger import (
    FLOATING_POINT,
    NEIGHBOURS,
    environment,
    not_finite,
    step_entry,
)
from dpsgd.experiment.parts import plain
from dpsgd.experiment.telemetry_words import NO_TELEMETRY

if TYPE_CHECKING:
    from dpsgd.experiment.own_loop import PrivateTraining

SEEDED_LOOP = (
    "Randomness is keyed by a seed: the guarantee is void against anyone who knows it, and two "
    "runs with one seed and one fingerprint on different data draw the same noise, which can be "
    "subtracted. Research runs only."
)
FROM_THE_SYSTEM = (
    "Randomness is keyed by 256 bits of the operating system that are kept nowhere. Noise is drawn "
    "by a Mersenne twister whose whole state comes from that key; it is not a cryptographic "
    "generator."
)


def own_ledger(training: PrivateTraining) -> dict[str, Any]:
    """Return the ledger, complete before the first step: its one entry covers all steps."""
    budget, sampler = training.budget, training.sampler
    return {
        "ledger_version": 1, "run_key": training.streams.run_key, "mechanism": "private",
        "private": True, "unit": training.rule.unit, "unit_name": training.rule.unit,
        "relation": budget.relation, "neighbours": NEIGHBOURS, "n_units": sampler.n_units,
        "n_units_declared": "public", "delta": training.delta,
        "delta_why": "configured" if budget.delta else "n_units^-1.1, rounded to one digit",
        "epsilon": training.epsilon, "epsilon_target": budget.epsilon,
        "certified_by": training.accountant.name,
        "epsilon_by_accountant": {training.accountant.name: training.epsilon},
        "epsilon_estimates": estimates(
            sampler.event(training.noise_multiplier, budget.steps), training.delta
        )
        if budget.relation == "add_or_remove_one"
        else {},
        "clip_rule": plain(training.rule), "clip_groups": list(training.groups.names),
        "scale": training.rule.scale(training.state).tolist(),
        "sampler": {
            "name": "poisson", "sampling_probability": sampler.sampling_probability,
            "expected_units": sampler.expected_units,
        },
        "telemetry": NO_TELEMETRY,
        "steps_planned": budget.steps, "stopped_by": "steps",
        "entries": [
            step_entry(
                training.rule, training.state, training.noise_multiplier,
                sampler.sampling_probability, budget.steps, training.streams.stream_id,
                budget.relation,
            )
        ],
        "not_covered": [
            "everything that the surrounding loop shows or decides from the data: losses, "
            "early stopping, models chosen by their accuracy, evaluation",
            not_finite(training.engine),
            "hyper-parameters chosen by looking at other runs on the same data",
            "other runs on the same data: ε is of this run alone",
        ],
        "data_statistics": ["whatever was done to the data before they came here is not known"],
        "data_fingerprint": "not known", "stream_id": training.streams.stream_id,
        "randomness": SEEDED_LOOP if training.seeded else FROM_THE_SYSTEM,
        "floating_point": FLOATING_POINT, "environment": environment(training.device),
        "result_version": "own loop", "config_hash": training.streams.run_key,
    }  # fmt: skip
