"""The six points of quality evidence as Markdown; "not measured" where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd.accounting import format_epsilon
from dpsgd.experiment.ledger.layout import bullets, paragraph, table

NAMES = {
    "accuracy": "accuracy",
    "macro_accuracy": "mean recall of classes",
    "tail_band": "recall of rare classes",
    "tail_worst": "accuracy of the worst slice",
    "nll": "cross entropy, nats",
}
_AUDITED = {
    "exposure": "exposure in bits",
    "membership_auc": "area under the ROC curve of an attack",
    "tpr_at_1pct": "members it finds at 1 % of false alarms",
}
BEFORE = (
    "Not measured: this page was written before training. When the run has ended, "
    "`python -m dpsgd.ledger show RUN` fills it."
)
OF_ONES_OWN = (
    "Not measured: the loop around these steps evaluates, and what it shows of private data is not "
    "in ε."
)


def evidence_section(ledger: Mapping[str, Any], evidence: Mapping[str, Any] | None) -> str:
    """Return the section: what is known of the model that this ledger goes with."""
    if evidence is None:
        return paragraph(OF_ONES_OWN if ledger["result_version"] == "own loop" else BEFORE)
    if ledger["release"] and not _is_public(evidence):
        return paragraph("Not shown: read raw from data that are not public.")
    raw = "" if _is_public(evidence) else " Read raw from data that are not public: outside ε."
    what = f"{evidence['label']}, test split.{raw} From {evidence['scope']}."
    model = f"Model: model.pt, SHA-256 {evidence['model_sha256']}."
    points = [
        _tail(evidence["recall_by_norm"], evidence["lr_scale"]),
        _calibration(evidence["calibration"]),
        _memorisation(evidence["memorisation"]),
        _tuning(evidence["same_data"]),
        f"Utility at ε = {_epsilon(ledger)}: below, with 95 % intervals.",
        _baseline(evidence["baseline"]),
    ]
    found = [paragraph(what), bullets([*points, model])]
    if evidence["utility"]:
        found.append(_utility(ledger, evidence))
    return "\n\n".join(found)


def _tail(rows: list[Mapping[str, Any]], lr_scale: str) -> str:
    what = "Recall of rare classes against C"
    if not rows:
        return f"{what}: not measured."
    shown = ", ".join(f"C={r['norm']:g} {r['value']:.3f}{_seeds(r['seeds'])}" for r in rows)
    if len(rows) == 1:
        return f"{what}: not measured at another C; {shown}."
    return f"{what}, all else but the seed equal: {shown} (optim.lr_scale={lr_scale})."


def _seeds(count: int) -> str:
    return "" if count == 1 else f" (mean of {count} seeds)"


def _calibration(rows: list[Mapping[str, Any]]) -> str:
    if not rows:
        return "Calibration on tail slices: not measured."
    shown = [
        f"{r['slice']} {r['value']:.3f} (n {r['n']}; {r['if_calibrated']:.3f} if calibrated)"
        for r in rows
    ]
    return f"Calibration (ECE) by rarity: {', '.join(shown)}."


def _memorisation(found: Any) -> str:
    # `verify` renders what a file says before it names what was forged in it.
    if not found or not isinstance(found, list):
        return "Memorisation: not measured (audit=canaries, audit=membership or audit=gradient)."
    return f"Memorisation: {'; '.join(map(_audit, found))}. Raw, outside ε."


def _audit(one: Mapping[str, Any]) -> str:
    runs = "this run" if one["own"] else "a run" if one["runs"] == 1 else f"{one['runs']} runs"
    of = "" if one["own"] else " that differ in audit and seed alone"
    of = of.replace("differ", "differs") if one["runs"] == 1 else of
    told = [f"{_AUDITED[metric]} {', '.join(rows)}" for metric, rows in _by_metric(one).items()]
    return f"audit={one['audit']} of {runs}{of}: {'; '.join([*told, _bound(one)])}"


def _by_metric(one: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in one["values"]:
        interval = "" if row["lo"] is None else f" [{row['lo']:.2f}, {row['hi']:.2f}]"
        shown = f"{row['slice']} {row['value']:.2f}{interval} (n {row['n']})"
        found.setdefault(row["metric"], []).append(shown)
    return found


def _bound(one: Mapping[str, Any]) -> str:
    if one["epsilon"] is None:
        return "no bound on ε, which is of users"
    mean = "" if one["runs"] == 1 else ", in the mean,"
    claims, refuted = one["claims"], one["refuted"]
    verdict = "no ε is claimed"
    if claims:
        verdict = f"{refuted} of {claims} claims REFUTED" if refuted else "the claim is not refuted"
        if not refuted and one.get("without_power") == claims:
            verdict = "which so few guesses could not refute, were all of them right"
    sure = f"{1 - one['significance']:.0%}"
    return f"ε ≥{mean} {one['epsilon']:.3g} for any mechanism (confidence {sure}), {verdict}"


def _tuning(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return (
            "Budget of tuning: not measured here. Runs on the same data that informed this one's "
            "settings cost what `python -m dpsgd.ledger compose` says."
        )
    private, diagnostic = counts["private"], counts["diagnostic"]
    if not private and not diagnostic:
        return "Budget of tuning: no other finished run on these data in the runs folder."
    return (
        f"Budget of tuning: other runs on these data: {private} private, {diagnostic} with ε = ∞. "
        "Those that informed this one's settings count: `python -m dpsgd.ledger compose`."
    )


def _baseline(baseline: Mapping[str, Any] | None) -> str:
    if baseline is None:
        return "Non-private baseline: not measured (mechanism=neither trains it)."
    return "Non-private baseline: beside it; its numbers are themselves a release with ε = ∞."


def _utility(ledger: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    baseline = evidence["baseline"] or {}
    rows = []
    for metric, row in evidence["utility"].items():
        other = baseline.get(metric)
        interval = f"{row['lo']:.3f}–{row['hi']:.3f}" if row["lo"] is not None else "–"
        rows.append((
            NAMES.get(metric, metric), f"{row['value']:.3f}", interval, str(row["n"]),
            "–" if other is None else f"{other['value']:.3f}",
        ))  # fmt: skip
    return table(("test", f"ε = {_epsilon(ledger)}", "95 %", "n", "baseline"), rows)


def _is_public(evidence: Mapping[str, Any]) -> bool:
    rows = [*evidence["utility"].values(), *evidence["calibration"]]
    return all(row["release"] == "public" for row in rows)


def _epsilon(ledger: Mapping[str, Any]) -> str:
    return format_epsilon(float(ledger["epsilon"]))
