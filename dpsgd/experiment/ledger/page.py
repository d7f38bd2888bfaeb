"""A ledger as Markdown: the page to attach to a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpsgd.accounting import ESTIMATES, format_delta, format_epsilon, unit_text
from dpsgd.experiment.audit_text import audit_line
from dpsgd.experiment.canaries import audit_lines
from dpsgd.experiment.ledger.decisions import DRAW, decision_lines
from dpsgd.experiment.ledger.evidence_page import evidence_section
from dpsgd.experiment.ledger.layout import bullets, paragraph, quote, table
from dpsgd.experiment.ledger.repeats import CHARGED_AGAIN, repeat_lines


def ledger_page(ledger: Mapping[str, Any], evidence: Mapping[str, Any] | None = None) -> str:
    """Render a ledger, with what is known of the model's quality: None before it is trained."""
    sections = [
        f"# Privacy ledger of run {ledger['run_key']}",
        paragraph(_verdict(ledger)),
        *([quote(ledger["randomness"])] if ledger["private"] else []),
        "## What is protected\n\n" + bullets(_protected(ledger)),
        "## Mechanisms\n\n" + _mechanisms(ledger),
        *_decisions(ledger),
        "## ε by accountant\n\n" + _accountants(ledger),
        *_audited(ledger, evidence),
        "## Not covered by ε\n\n" + bullets(_not_covered(ledger)),
        "## Data\n\n" + bullets(_data(ledger)),
        "## Randomness and arithmetic\n\n" + bullets([ledger["keying"], ledger["floating_point"]]),
        "## Quality evidence\n\n" + evidence_section(ledger, evidence),
        "## Code and environment\n\n" + bullets(_code(ledger)),
    ]
    return "\n\n".join(sections) + "\n"


def shown_epsilon(ledger: Mapping[str, Any]) -> str:
    """Return ε for people, rounded up, ∞ for diagnostics."""
    return format_epsilon(math.inf if ledger["epsilon"] == "inf" else ledger["epsilon"])


def _verdict(ledger: Mapping[str, Any]) -> str:
    if not ledger["private"]:
        return f"**ε = ∞: a diagnostic (mechanism {ledger['mechanism']}), not private.**"
    return (
        f"**ε = {shown_epsilon(ledger)}, δ = {format_delta(ledger['delta'])}**, unit: "
        f"{unit_text(ledger['unit'], ledger['unit_name'])}, relation: {ledger['relation']}, "
        f"certified by {ledger['certified_by']}."
    )


def _not_covered(ledger: Mapping[str, Any]) -> list[str]:
    bare = [] if ledger["private"] else ["the parameters of the model themselves"]
    return [*bare, *ledger["not_covered"]]


def _protected(ledger: Mapping[str, Any]) -> list[str]:
    if not ledger["private"]:
        return [
            "Nothing: no bound holds.",
            f"n = {ledger['n_units']} units.",
            *audit_lines(ledger),
            _steps(ledger),
        ]
    return [
        f"Neighbours: {ledger['neighbours']}.",
        f"n = {ledger['n_units']} units, declared {ledger['n_units_declared']}. "
        f"δ: {ledger['delta_why']}.",
        *audit_lines(ledger),
        _steps(ledger),
        *repeat_lines(ledger),
    ]


def _steps(ledger: Mapping[str, Any]) -> str:
    covered, planned = ledger["steps"], ledger["steps_planned"]
    if not ledger["private"]:
        return f"{planned} steps planned."
    most = "" if covered == planned else f"; the budget ends before the {planned} that were asked"
    looks = next((e["steps"] for e in ledger["entries"] if e["draw_id"] == DRAW), 0)
    asked = f" and {looks} looks" if looks else ""
    again = " and of all that was charged again" if ledger.get(CHARGED_AGAIN) else ""
    return (
        f"ε is that of {covered} steps{asked}, fixed before the first, however many were taken"
        f"{most}{again}."
    )


def _mechanisms(ledger: Mapping[str, Any]) -> str:
    rule = ", ".join(
        f"{k}={v}" for k, v in ledger["clip_rule"].items() if k != "_target_" and v is not None
    )
    sampler = ledger["sampler"]
    facts = [f"Clipping rule: {rule}.", f"Sampling: {_sampling(sampler)}."]
    if ledger["telemetry"].startswith("accounted"):
        facts.append(f"Telemetry, {ledger['telemetry']}.")
    if not ledger["entries"]:
        return bullets([*facts, "Nothing in this run is noised under a bound."])
    facts += [
        f"Envelope, for every unit: {ledger['envelope']}. Noise has standard deviation σ·scale, "
        f"before division by expected_units; σ = {ledger['noise_multiplier']:.6g}. Scale at the "
        f"start: {_scales(ledger)}."
    ]
    rows = [
        (
            e["purpose"], _percent(e["share"]), f"{e['noise_multiplier']:.6g}",
            _number(e["sampling_probability"]), str(e["steps"]), e["draw_id"],
        )
        for e in ledger["entries"]
    ]  # fmt: skip
    text = table(("purpose", "share", "σ alone", "q", "steps", "draw"), rows)
    streams = ", ".join(dict.fromkeys(e["stream_id"] for e in ledger["entries"]))
    note = (
        f"Unit, relation and event of each are in ledger.json. Those of one draw are one joint "
        f"Gaussian release of multiplier (Σσ⁻²)^(−½). Stream {streams}."
    )
    return f"{bullets(facts)}\n\n{text}\n\n{paragraph(note)}"


def _decisions(ledger: Mapping[str, Any]) -> list[str]:
    decisions = ledger.get("decisions")
    if decisions is None:
        return []
    return ["## Decisions during training\n\n" + bullets(decision_lines(decisions))]


def _sampling(sampler: Mapping[str, Any]) -> str:
    known = ("name", "scheme", "_target_", "sampling_probability", "expected_units", "combine",
             "stated")  # fmt: skip
    settings = [f"{k}={v}" for k, v in sampler.items() if k not in known and v is not None]
    q = _number(sampler["sampling_probability"])
    facts = ", ".join(
        [sampler["name"], *settings, f"q = {q}", f"expected_units = {sampler['expected_units']:g}"]
    )
    return f"{facts}: {sampler['stated']}"


def _scales(ledger: Mapping[str, Any]) -> str:
    found = [
        f"{group} {_number(value)}"
        for group, value in zip(ledger["clip_groups"], ledger["scale"], strict=True)
    ]
    if ledger["query_scale"]:
        found.append("queries " + ", ".join(dict.fromkeys(map(_number, ledger["query_scale"]))))
    return ", ".join(found)


def _accountants(ledger: Mapping[str, Any]) -> str:
    rows = [
        (f"**{name}**, certifies" if name == ledger["certified_by"] else name, _shown(value))
        for name, value in ledger["epsilon_by_accountant"].items()
    ]
    rows += [
        (f"{name} (no bound: {ESTIMATES[name]})", _shown(value))
        for name, value in ledger["epsilon_estimates"].items()
    ]
    if not rows:
        return "ε = ∞ by every accountant."
    how = f"Conversion to (ε, δ) by {ledger['certified_by']}: {ledger['conversion']}."
    return table(("accountant", "ε"), rows) + "\n\n" + paragraph(how)


def _audited(ledger: Mapping[str, Any], evidence: Mapping[str, Any] | None) -> list[str]:
    """Return the lower bound that stands beside ε, once an audited run has ended."""
    found = None if evidence is None else evidence.get("audit")
    if found is None:
        return []
    return [
        paragraph(
            f"Audited lower bound: {audit_line({**found, 'epsilon': ledger['epsilon']})}. Read "
            "with the coins, which no ε covers."
        )
    ]


def _data(ledger: Mapping[str, Any]) -> list[str]:
    statistics = ledger["slice_statistics"]
    if statistics["where"]:
        where = ", ".join(statistics["where"])
        how = {
            "private": "raw, so that this page does not show them",
            "accounted": "noised, inside ε, with intervals",
            "public": "of validation records, declared public",
        }[statistics["release"]]
        counted = statistics["release"] == "accounted"
        what = "Clip fractions" if counted else "Norms and clip fractions"
        norms = f"{what} by slice (telemetry={statistics['telemetry']}): {where}; {how}."
    else:
        norms = "Norms and clip fractions by slice: not kept."
    digest = str(ledger["data_fingerprint"])
    named = f"SHA-256{':' if digest.startswith('withheld') else ''} {digest}"
    return [*ledger["data_statistics"], norms, named]


def _code(ledger: Mapping[str, Any]) -> list[str]:
    code = ledger["code"]
    dirty = {True: ", with changes that are not committed", False: ", clean", None: ""}
    lines = [
        f"clipping-atlas {code['version']}, commit {code['commit']}{dirty[code['dirty']]}, "
        f"result version {ledger['result_version']}",
        ", ".join(f"{name} {value}" for name, value in ledger["environment"].items()),
        f"config SHA-256 {ledger['config_hash']}",
    ]
    own = [f"{module} {digest}" for module, digest in ledger["own_code"].items()]
    return lines + [f"code of the user's own, SHA-256: {one}" for one in own]


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return "∞" if value == "inf" else value
    return format_epsilon(value)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return "∞" if value == "inf" else f"{value:.6g}"
