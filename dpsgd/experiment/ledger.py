"""The privacy ledger of a run: what was released, what it cost, and what ε does not cover."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
from pathlib import Path
from typing import Any

import torch

from dpsgd.accounting import ESTIMATES, estimates, format_delta, format_epsilon, unit_text
from dpsgd.clipping.rule import ClipRule, State
from dpsgd.data.bundle import holdout_is_public
from dpsgd.engine.gradients import Engine
from dpsgd.experiment.identity import RESULT_VERSION, cell_config, infinities_as_words
from dpsgd.experiment.parts import plain
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.telemetry_words import telemetry_cost, telemetry_not_covered

LEDGER_VERSION = 1
SEEDED = (
    "Randomness is keyed by the seed: the guarantee is void against anyone who knows the seed. "
    "Research runs only."
)
SHARED = (
    "debug.common_noise: draws and noise are those of every such run of this seed. Two of them "
    "can be subtracted from each other, which leaves no noise: never release this run, and never "
    "compose it with others."
)
NEIGHBOURS = (
    "two training splits that differ in one unit. How records were chosen for that split (split "
    "by class, a thinned tail, the columns' vocabulary) is taken as given, not as private"
)
FLOATING_POINT = (
    "Noise is drawn in float32 or float64 by a Mersenne twister and Box-Muller; the accounting is "
    "that of exact real-valued Gaussians."
)


def ledger_of(plan: Plan) -> dict[str, Any]:
    """Return the ledger, complete before the first step: its one entry covers all planned steps."""
    prepared, cell = plan.prepared, plan.prepared.cell
    settings = cell.settings
    return {
        "ledger_version": LEDGER_VERSION,
        "run_key": prepared.run_key,
        "mechanism": settings.mechanism,
        "private": cell.private,
        "unit": cell.clip.unit,
        "unit_name": settings.unit_name or cell.clip.unit,
        "relation": settings.relation,
        "neighbours": NEIGHBOURS,
        "n_units": prepared.sampler.n_units,
        "n_units_declared": "public",
        "delta": prepared.delta,
        "delta_why": prepared.delta_why,
        "epsilon": infinities_as_words(plan.epsilon),
        "epsilon_target": infinities_as_words(settings.epsilon),
        "certified_by": cell.accountant.name if cell.private else None,
        "epsilon_by_accountant": plan.epsilons,
        "epsilon_estimates": _estimates(plan),
        "clip_rule": plain(cell.clip),
        "clip_groups": list(prepared.groups.names),
        "scale": infinities_as_words(_scale(plan)),
        "sampler": {
            **plain(cell.sampling),
            "sampling_probability": prepared.sampler.sampling_probability,
            "expected_units": prepared.sampler.expected_units,
        },
        "telemetry": telemetry_cost(prepared.rule, cell.telemetry, plan.noise_multiplier),
        "steps_planned": prepared.steps,
        "stopped_by": plan.stopped_by,
        "entries": _entries(plan),
        "not_covered": not_covered(plan),
        "data_statistics": list(prepared.bundle.notes),
        "data_fingerprint": prepared.bundle.fingerprint,
        "stream_id": prepared.streams.stream_id,
        "common_noise": cell.debug.common_noise,
        "randomness": f"{SEEDED} {SHARED}" if cell.debug.common_noise else SEEDED,
        "floating_point": FLOATING_POINT,
        "environment": environment(settings.device),
        "result_version": RESULT_VERSION,
        "config_hash": hashlib.sha256(
            json.dumps(cell_config(cell), sort_keys=True, default=str).encode()
        ).hexdigest(),
    }


def not_covered(plan: Plan) -> list[str]:
    """Return a sentence for everything that a run releases outside ε."""
    prepared, cell = plan.prepared, plan.prepared.cell
    bundle = prepared.bundle
    found: list[str] = []
    found += telemetry_not_covered(cell.telemetry)
    found.append(
        "evaluation.parquet and predictions.parquet: read from validation and test data, "
        + (
            "declared public"
            if holdout_is_public(bundle)
            else "which are not public; reading them raw is not in ε"
        )
    )
    if any(split.user is not None for split in (bundle.validation, bundle.test)):
        found.append(
            "validation and test records of users who may also own training records: what is read "
            "from them is about the same people"
        )
    if cell.slices.kinds_of_train():
        found.append(
            f"slices {', '.join(sorted(cell.slices.kinds_of_train()))}, with their n, and the "
            "worst slice, wherever they are shown: made from training records"
        )
    found += [
        "hyper-parameters, rule and C chosen by looking at other runs on the same data",
        not_finite(cell.engine),
        "stopping on a row that is found to depend on others",
        "the run's duration, and the SHA-256 of the data in this ledger",
        "other runs on the same data: ε is of this run alone",
    ]
    return found


def not_finite(engine: Engine) -> str:
    """Return what leaves a run outside ε when a gradient is not finite."""
    if engine.non_finite == "stop":
        return "stopping on a gradient that is not finite, with the example's index in the message"
    return (
        "how many units were left out because their gradient was not finite, wherever it is shown; "
        "leaving them out is covered: it looks at one unit at a time and adds nothing for it"
    )


def environment(device: str) -> dict[str, Any]:
    """Return what a bit-equal repetition on ``device`` needs to be the same."""
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "numpy", "dp-accounting", "hydra-core")
    }
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        **_accelerator(device),
        **versions,
    }


def _accelerator(device: str) -> dict[str, Any]:
    if torch.device(device).type != "cuda":
        return {}
    return {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}


def ledger_page(ledger: dict[str, Any]) -> str:
    """Render a ledger as Markdown: the page to attach to a model."""
    epsilon, delta = shown_epsilon(ledger), format_delta(ledger["delta"])
    verdict = (
        f"**ε = {epsilon}, δ = {delta}**, unit: "
        f"{unit_text(ledger['unit'], ledger['unit_name'])}, "
        f"relation: {ledger['relation']}, certified by {ledger['certified_by']}."
        if ledger["private"]
        else f"**ε = ∞: a diagnostic (mechanism {ledger['mechanism']}), not private.**"
    )
    rule = ", ".join(
        f"{k}={v}" for k, v in ledger["clip_rule"].items() if k != "_target_" and v is not None
    )
    by_accountant = ledger["epsilon_by_accountant"].items()
    accountants = "\n".join(
        [f"| {name} | {_shown(value)} |" for name, value in by_accountant]
        + [
            f"| {name} (no bound: {ESTIMATES[name]}) | {_shown(value)} |"
            for name, value in ledger["epsilon_estimates"].items()
        ]
    )
    entries = "\n".join(
        f"| {e['purpose']} | {e['noise_multiplier']:.6g} | {e['sampling_probability']:.6g} "
        f"| {e['steps']} | {e['draw_id']} | {e['stream_id']} |"
        for e in ledger["entries"]
    )
    scales = ", ".join(
        f"{group} {value:.4g}" if isinstance(value, float) else f"{group} ∞"
        for group, value in zip(ledger["clip_groups"], ledger["scale"], strict=True)
    )
    sampler = ledger["sampler"]
    sections = [
        f"# Privacy ledger of run {ledger['run_key']}",
        *([f"**{SHARED}**"] if ledger.get("common_noise") else []),
        verdict,
        f"- Neighbours: {ledger['neighbours']}\n"
        f"- δ: {ledger['delta_why']}; n = {ledger['n_units']} units, declared "
        f"{ledger['n_units_declared']}\n"
        f"- Clipping rule: {rule}\n"
        f"- Scale (noise std is σ·scale, before division by expected_units): {scales}\n"
        f"- Sampling: {sampler['name']}, q = {sampler['sampling_probability']:.6g}, "
        f"expected_units = {sampler['expected_units']:g}\n"
        f"- Telemetry: {ledger['telemetry']}\n"
        f"- Steps: {_steps(ledger)}",
        "## Private queries\n\n| purpose | σ | q | steps | draw | stream |\n"
        f"|---|---|---|---|---|---|\n{entries}"
        if entries
        else "## Private queries\n\nNone: nothing in this run is noised under a bound.",
        f"## ε by accountant\n\n| accountant | ε |\n|---|---|\n{accountants}"
        if accountants
        else "## ε by accountant\n\nε = ∞ by every accountant.",
        "## Not covered by ε\n\n" + "\n".join(f"- {line}" for line in ledger["not_covered"]),
        f"## Randomness and arithmetic\n\n{ledger['randomness']}\n\n{ledger['floating_point']}",
        "## Data\n\n"
        + "\n".join(f"- {note}" for note in ledger["data_statistics"])
        + f"\n- SHA-256 {ledger['data_fingerprint']}",
        "## Environment\n\n"
        + "\n".join(f"- {name}: {value}" for name, value in ledger["environment"].items())
        + f"\n- result version {ledger['result_version']}, config SHA-256 {ledger['config_hash']}",
    ]
    return "\n\n".join(sections) + "\n"


def _steps(ledger: dict[str, Any]) -> str:
    covered = sum(entry["steps"] for entry in ledger["entries"])
    planned = ledger["steps_planned"]
    if not ledger["entries"]:
        return f"{planned} planned"
    most = "" if covered == planned else f"; the budget ends before the {planned} that were asked"
    return f"ε is that of {covered} steps, fixed before the first, however many were taken{most}"


def shown_epsilon(ledger: dict[str, Any]) -> str:
    """Return ε for people, rounded up, ∞ for diagnostics."""
    return format_epsilon(math.inf if ledger["epsilon"] == "inf" else ledger["epsilon"])


def check_attempt(stored: Any, folder: Path, device: str) -> str | None:
    """Return why the attempt that left ``stored`` cannot be repeated, or None if it can.

    On the same machine and versions the keyed streams repeat it bit by bit, so that nothing new is
    released. Elsewhere the repeated steps would be another release.
    """
    if stored is None or stored.get("environment") == environment(device):
        return None
    return (
        f"{folder} holds an attempt from another environment, whose steps would not be repeated "
        "bit by bit and so would cost ε again; move that folder away if nothing from it was "
        "released, or use another seed"
    )


def _entries(plan: Plan) -> list[dict[str, Any]]:
    prepared, cell = plan.prepared, plan.prepared.cell
    if not cell.private:
        return []
    state = _first_state(plan)
    return [
        step_entry(
            prepared.rule, state, plan.noise_multiplier, prepared.sampler.sampling_probability,
            plan.steps, prepared.streams.stream_id, cell.settings.relation,
        )
    ]  # fmt: skip


def _first_state(plan: Plan) -> State:
    prepared = plan.prepared
    expected = prepared.sampler.expected_units
    return prepared.rule.bind(prepared.groups, plan.noise_multiplier, expected)


def _scale(plan: Plan) -> list[float]:
    return plan.prepared.rule.scale(_first_state(plan)).tolist()


def step_entry(
    rule: ClipRule, state: State, noise_multiplier: float, sampling_probability: float, steps: int,
    stream_id: str, relation: str,
) -> dict[str, Any]:  # fmt: skip
    """Return the entry of all steps of a run: gradient and whatever is asked with it.

    ``shares`` says what each takes of the envelope: by itself it is a Gaussian of σ/√share.
    """
    shares = rule.shares(state)
    return {
        "purpose": _joined(list(shares)),
        "shares": shares,
        "noise_multiplier": noise_multiplier,
        "sampling_probability": sampling_probability,
        "steps": steps,
        "draw_id": f"1-{steps}",
        "stream_id": stream_id,
        "unit": rule.unit,
        "relation": relation,
        "sensitivity": "Σ_g (w_g·n_g/scale_g)² + Σ_k (query_k/query_scale_k)² ≤ 1, every unit",
        "query_scale": rule.query_scale(state).tolist(),
    }


def _joined(purposes: list[str]) -> str:
    if len(purposes) == 1:
        return purposes[0]
    return f"{', '.join(purposes[:-1])} and {purposes[-1]}, one joint release"


def _estimates(plan: Plan) -> dict[str, float]:
    """Return what papers quote for such a run; only under add-or-remove-one."""
    prepared = plan.prepared
    settings = prepared.cell.settings
    if not prepared.cell.private or settings.relation != "add_or_remove_one":
        return {}
    event = prepared.sampler.event(plan.noise_multiplier, plan.steps)
    return infinities_as_words(estimates(event, prepared.delta))


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else format_epsilon(value)
