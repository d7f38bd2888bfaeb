"""The ledger against what the run left: status, steps, cell, files, and its page."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.identity import flat, infinities_as_words
from dpsgd.experiment.ledger.evidence import again
from dpsgd.experiment.ledger.page import ledger_page
from dpsgd.experiment.ledger.repeats import repeats_of
from dpsgd.experiment.looked import EARLY
from dpsgd.experiment.processes import is_running
from dpsgd.experiment.seal import SEALED, sealed_files
from dpsgd.experiment.verify.coverage import check_coverage
from dpsgd.experiment.verify.decisions import may_stop_early
from dpsgd.experiment.verify.finding import Findings

_CELL = f"{schema.CELL_FILE} against {schema.LEDGER_FILE}"
_OF_CELL = (
    "run_key", "mechanism", "private", "unit", "unit_name", "relation", "epsilon",
    "epsilon_target", "delta", "noise_multiplier", "n_units", "steps", "steps_planned",
    "stopped_by",
)  # fmt: skip


def check_status(ledger: Mapping[str, Any], status: Mapping[str, Any], findings: Findings) -> str:
    """Compare the steps taken with those in the ledger; return how the run stands, in a line."""
    where = f"{schema.STATUS_FILE} against {schema.LEDGER_FILE}"
    word, taken = str(status.get("status")), status.get("step")
    findings.that(word in schema.STATUSES, "status", schema.STATUS_FILE,
                  " or ".join(schema.STATUSES), word)  # fmt: skip
    covered = ledger["steps"]
    check_coverage(ledger, findings)
    whole = isinstance(taken, int) and taken >= 0
    findings.that(whole and taken <= covered, "steps taken", where, f"at most {covered}", taken)
    if status.get("attempts", 1) > 1:
        findings.remarks.append(f"attempt {status['attempts']} of this run: {_attempts(ledger)}")
    begun = status.get("begun", covered)  # a released run does not say
    for last in repeats_of(ledger)[-1:]:
        what = "step after which the latest attempt began"
        findings.that(begun >= last.after, what, where, f"{last.after} or later", begun)
    if word != "FINISHED":
        return _unfinished(word, status, covered)
    if may_stop_early(ledger) and status.get("stopped_by") == EARLY:
        looks = [step for step in ledger["decisions"]["steps"] if step < covered]
        what = "step of early stopping"
        findings.that(taken in looks, what, where, f"one of {looks}", taken)
    else:
        findings.equal("steps taken by a finished run", where, covered, taken)
        findings.equal("stopped_by", where, ledger["stopped_by"], status.get("stopped_by"))
    return f"FINISHED, {taken} of {covered} steps, stopped by {status.get('stopped_by')}"


def check_cell(
    ledger: Mapping[str, Any], config: Mapping[str, Any], cell: Mapping[str, Any],
    findings: Findings,
) -> None:  # fmt: skip
    """Compare ``cell.json``, which the atlas reads, with ledger and configuration."""
    for name in _OF_CELL:
        findings.equal(name, _CELL, infinities_as_words(ledger[name]), cell.get(name))
    settings = {k: v for k, v in cell.items() if k.startswith("config.")}
    where = f"{schema.CELL_FILE} against {schema.CONFIG_FILE}"
    findings.items("setting", where, flat(config), settings)


def check_files(
    folder: Path, ledger: Mapping[str, Any], status: Mapping[str, Any], findings: Findings
) -> None:
    """Compare every file of a finished run, its model among them, with the hash kept at its end."""
    kept = status.get("files")
    if not isinstance(kept, Mapping):
        findings.remarks.append("the run was finished before files were bound by their SHA-256")
        return
    sometimes = {schema.AUDIT_FILE: "audit" in ledger, schema.GRADIENTS_FILE: False}
    written = [name for name in SEALED if name in kept or sometimes.get(name, True)]
    needed = {name: kept.get(name, "its SHA-256") for name in written}
    findings.items("SHA-256 of", schema.STATUS_FILE, needed, sealed_files(folder))


def check_tables(folder: Path, covered: int, findings: Findings) -> None:
    """No table may know of steps that the ledger does not cover."""
    for name in (schema.TELEMETRY_FILE, schema.EVALUATION_FILE, schema.GRADIENTS_FILE):
        if not (folder / name).exists():
            continue
        try:
            steps = pd.read_parquet(folder / name, columns=["step"])["step"].to_numpy()
        except (OSError, ValueError, KeyError) as error:
            findings.that(False, "table", name, "rows with a step", str(error).splitlines()[0])
            continue
        last = int(steps.max()) if len(steps) else 0
        findings.that(last <= covered, "last step", name, f"at most {covered}", last)


def check_page(
    folder: Path, ledger: Mapping[str, Any], cell: Mapping[str, Any] | None,
    model: str | None, findings: Findings,
) -> None:  # fmt: skip
    """Render the page once more from ledger and evidence, and the evidence from the runs."""
    evidence = read_json(folder / schema.EVIDENCE_FILE)
    try:
        page = (folder / schema.LEDGER_PAGE).read_text(encoding="utf-8")
        expected = ledger_page(ledger, evidence)
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        findings.that(False, "page", schema.LEDGER_PAGE, "a page of this ledger", repr(error))
        return
    line = next(
        (pair for pair in zip(expected.split("\n"), page.split("\n"), strict=False)
         if pair[0] != pair[1]),
        ("", "") if expected == page else ("(as long as the ledger's)", "(of another length)"),
    )  # fmt: skip
    findings.that(expected == page, "page", schema.LEDGER_PAGE, *line)
    if evidence is None or cell is None:
        return
    findings.equal("model_sha256", schema.EVIDENCE_FILE, model, evidence.get("model_sha256"))
    renewed = again(evidence, cell, folder.parent)
    if renewed is None:
        findings.remarks.append("runs that the quality evidence names are gone: it stays unchecked")
        return
    findings.items("evidence", schema.EVIDENCE_FILE, renewed, evidence)


def _attempts(ledger: Mapping[str, Any]) -> str:
    again = len(repeats_of(ledger))
    if not again:
        return (
            "it went on from a checkpoint of the earlier ones, or repeated their steps by the same "
            "streams, bit by bit, and all are charged once"
        )
    return f"{again} of them in another environment, where steps were drawn and charged again"


def _unfinished(word: str, status: Mapping[str, Any], covered: int) -> str:
    gone = word == "RUNNING" and not _alive(status)
    word = "RUNNING, though its process is gone" if gone else word
    return (
        f"{word}: at least {status.get('step')} of {covered} steps taken. Not finished: whatever "
        "was taken from it is covered by the ε of all steps, and by no smaller one"
    )


def _alive(status: Mapping[str, Any]) -> bool:
    """Whether the process may still run: unknown, and so assumed, on another machine."""
    pid = status.get("pid")
    if status.get("host") != socket.gethostname() or not isinstance(pid, int) or pid < 1:
        return True
    return is_running(pid)
