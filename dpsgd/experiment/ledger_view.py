"""What the command line of ledgers prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.accounting import format_delta, format_epsilon, unit_text
from dpsgd.errors import ConfigError
from dpsgd.experiment.choosing import choice_text
from dpsgd.experiment.composition import Total
from dpsgd.experiment.files import write_json, write_text
from dpsgd.experiment.ledger.evidence import of_the_folder
from dpsgd.experiment.ledger.layout import WIDTH, bullets, paragraph
from dpsgd.experiment.ledger.page import ledger_page
from dpsgd.experiment.record import finished
from dpsgd.experiment.seal import sha256
from dpsgd.experiment.verify import Verdict, read_ledger

BEST = (
    "Releasing only the best of these runs costs as much as releasing all of them: a fixed grid "
    "was looked at, whole, to choose. Less is provable only for a random number of runs with "
    "settings drawn at random, chosen by a public or an accounted score (Papernot and Steinke, "
    "ICLR 2022), which none of these ledgers states."
)
"""A ledger with an entry of purpose ``tuning`` would state that, by a RepeatAndSelect event."""


def shown_page(folder: Path) -> str:
    """Return the page of a run with the evidence that is in its runs folder today."""
    ledger = read_ledger(folder)
    return ledger_page(ledger, _evidence(folder))


def write_shown_page(folder: Path) -> str:
    """Write that page, and the evidence it shows, into the run's folder; return it."""
    ledger, evidence = read_ledger(folder), _evidence(folder)
    page = ledger_page(ledger, evidence)
    if evidence is not None:
        write_json(folder / schema.EVIDENCE_FILE, evidence)
        write_text(folder / schema.LEDGER_PAGE, page)
    return page


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what was found of one run: one line a mismatch."""
    ledger, findings = verdict.ledger, verdict.findings
    checked = f"{findings.checked} comparisons"
    failed = f"DOES NOT HOLD ({len(findings.mismatches)} of {checked})"
    yield f"{verdict.folder.name}: {f'holds ({checked})' if verdict.holds else failed}"
    yield f"  {_guarantee(ledger)}"
    yield from _indented(verdict.state)
    for mismatch in findings.mismatches:
        yield f"  ✗ {mismatch}"
    for remark in findings.remarks:
        yield from _indented(remark)
    if verdict.holds and verdict.seal:
        yield f"  seal {verdict.seal}"


def total_lines(total: Total, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the honest total, what makes it ∞, and what it leaves out."""
    n = len(verdicts)
    unit = unit_text(total.unit, total.unit_name)
    yield (
        f"{n} run{'s' * (n > 1)} together: ε = {format_epsilon(total.epsilon)}"
        + (f", δ = {format_delta(total.delta)}" if total.private else "")
    )
    yield f"unit: {unit}, relation: {total.relation}"
    for folder in total.not_private:
        ledger = next(v.ledger for v in verdicts if v.folder == folder)
        yield f"  {folder.name}: ε = ∞ (mechanism {ledger['mechanism']})"
    if total.private:
        rest = f"The {len(total.private)} private alone" if total.not_private else "By accountant"
        shown = ", ".join(f"{name} {_number(value)}" for name, value in total.epsilons.items())
        yield f"{rest}: ε by {shown} (the largest of one: {format_epsilon(total.largest)})"
    if total.not_private and total.private:
        yield paragraph(
            "That smaller number holds only where nothing of the runs with ε = ∞ leaves: no table, "
            "no figure, no choice that was made by them."
        )
    unfinished = [v.folder.name for v in verdicts if not v.state.startswith("FINISHED")]
    if unfinished:
        yield paragraph(f"Counted in full, though not finished: {', '.join(unfinished)}.")
    if total.uncovered:
        yield "Statistics of the data that no ε covers:"
        yield bullets(total.uncovered)
    if n > 1:
        yield paragraph(BEST)
        private = [verdict.ledger for verdict in verdicts if verdict.folder in total.private]
        if private:
            costliest = max(private, key=lambda ledger: float(ledger["epsilon"]))
            yield paragraph(choice_text(costliest, total.relation, total.delta))


def _evidence(folder: Path) -> dict[str, Any] | None:
    cell = finished(folder)
    model = folder / schema.MODEL_FILE
    if cell is None:
        return None
    if not model.exists():
        raise ConfigError("run", folder.name, f"{schema.MODEL_FILE} is gone")
    return of_the_folder(cell, sha256(model), folder.resolve().parent)


def _guarantee(ledger: dict[str, Any]) -> str:
    if not ledger.get("private"):
        return f"ε = ∞ (mechanism {ledger.get('mechanism')})"
    return (
        f"ε = {_number(ledger.get('epsilon'))}, δ = {ledger.get('delta')}, unit "
        f"{ledger.get('unit')}, {ledger.get('relation')}, by {ledger.get('certified_by')}"
    )


def _number(value: Any) -> str:
    return format_epsilon(value) if isinstance(value, float) else str(value)


def _indented(text: str) -> Iterator[str]:
    yield textwrap.indent(textwrap.fill(text, WIDTH - 2), "  ")
