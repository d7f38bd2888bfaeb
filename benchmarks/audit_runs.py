"""Audited trainings without a run folder: what an audit says, with or without a planted fault."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from dpsgd.experiment.audited import audited
from dpsgd.experiment.plan import Plan, solve
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.training import trainer_of
from dpsgd.python import resolved
from dpsgd.telemetry.recorder import NoRecorder


def audited_run(
    settings: Mapping[str, Any], cache: Path, fault: AbstractContextManager[None] | None = None
) -> dict[str, Any]:
    """Train a cell by gradient canaries, ``fault`` standing while it trains and no longer.

    Return the summary of its audit with ``epsilon``, ``delta``, σ and steps. ``cache`` is a folder
    for what accountants answer. Raises ConfigError as ``dpsgd.train`` does.
    """
    plan = planned(settings, cache)
    trainer = trainer_of(plan)
    with fault or nullcontext():
        trainer.run(plan.prepared.bundle.train, NoRecorder(), _silent)
    found = audited(plan, trainer.canaries, cache)
    if found is None:
        raise ValueError("the cell is not audited")
    return found.summary | {
        "epsilon": plan.epsilon, "delta": plan.prepared.delta, "steps": plan.steps,
        "noise_multiplier": plan.noise_multiplier, "n_units": plan.prepared.sampler.n_units,
    }  # fmt: skip


def planned(settings: Mapping[str, Any], cache: Path) -> Plan:
    """Return the plan of a cell that nothing is recorded of but its audit."""
    quiet = {"tracker": "none", "telemetry": "off", "audit": "gradient"}
    return solve(prepare(read_cell(resolved(quiet | dict(settings)))), cache)


def _silent(step: int, loss: float, clip_fraction: float | None) -> None:
    """Show nothing."""
