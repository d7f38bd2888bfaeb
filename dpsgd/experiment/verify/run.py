"""All checks of one run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis import schema
from dpsgd.errors import ConfigError
from dpsgd.experiment.files import read_json
from dpsgd.experiment.ledger.content import LEDGER_VERSION
from dpsgd.experiment.own_ledger import OWN_LOOP
from dpsgd.experiment.seal import seal_of
from dpsgd.experiment.verify.audit import check_audit
from dpsgd.experiment.verify.configuration import check_configuration
from dpsgd.experiment.verify.decisions import check_ending, check_planned
from dpsgd.experiment.verify.finding import Findings
from dpsgd.experiment.verify.numbers import check_numbers, check_sigma
from dpsgd.experiment.verify.run_files import (
    check_cell,
    check_files,
    check_page,
    check_status,
    check_tables,
)


@dataclass(frozen=True)
class Verdict:
    """What was found of one run: ``state`` in a line, and the seal of a finished one."""

    folder: Path
    ledger: dict[str, Any]
    state: str
    seal: str | None
    findings: Findings

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the ledger."""
        return not self.findings.mismatches


def read_ledger(folder: Path) -> dict[str, Any]:
    """Return ``ledger.json``. Raises ConfigError for none, a torn one, and another version."""
    file = folder / schema.LEDGER_FILE
    ledger = read_json(file)
    if not isinstance(ledger, dict):
        why = "is torn or no JSON" if file.exists() else "is not there"
        raise ConfigError("run", folder, f"{schema.LEDGER_FILE} {why}")
    version = ledger.get("ledger_version")
    if version != LEDGER_VERSION:
        raise ConfigError(
            "ledger_version", version, f"this program reads {LEDGER_VERSION}",
            f"{folder}: verify it with the version of the project that wrote it",
        )  # fmt: skip
    return ledger


def verify(folder: Path, *, accountants: bool = True, seal: str | None = None) -> Verdict:
    """Check a run's folder; ``accountants`` also computes its ε again, which takes a second.

    ``seal`` is that of the run, known from elsewhere. Raises ConfigError as :func:`read_ledger`.
    """
    ledger = read_ledger(folder)
    findings = Findings()
    try:
        state, status = _check(folder, ledger, findings, accountants=accountants)
        if accountants and ledger["private"]:
            check_numbers(ledger, findings)
        elif ledger["private"]:
            check_sigma(ledger, findings)
        elif not ledger["private"]:
            findings.equal("ε without privacy", schema.LEDGER_FILE, "inf", ledger["epsilon"])
            findings.equal("entries without privacy", schema.LEDGER_FILE, [], ledger["entries"])
    except ConfigError as error:
        findings.that(False, error.key, folder.name, error.allowed, str(error.value))
        return Verdict(folder, ledger, "unreadable", None, findings)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        # Whoever edits a file may take anything out of it.
        findings.that(False, "content", "the run's files", "what every run has", _said(error))
        return Verdict(folder, ledger, "unreadable", None, findings)
    found = seal_of(status) if status is not None and status.get("files") else None
    if seal is not None:
        findings.equal("seal", schema.STATUS_FILE, seal, found)
    return Verdict(folder, ledger, state, found, findings)


def _check(
    folder: Path, ledger: Mapping[str, Any], findings: Findings, *, accountants: bool
) -> tuple[str, dict[str, Any] | None]:
    if ledger["result_version"] == OWN_LOOP:
        findings.remarks.append("a loop of one's own: there is no configuration to compare with")
        check_page(folder, ledger, None, None, findings)
        return f"a loop of one's own, {ledger['steps']} steps at most", None
    config = _config(folder)
    status = read_json(folder / schema.STATUS_FILE)
    if not isinstance(status, dict):
        raise ConfigError("status", schema.STATUS_FILE, "must be there, and whole")
    check_configuration(ledger, config, findings)
    check_planned(ledger, config, findings)
    state = check_status(ledger, status, findings)
    check_tables(folder, ledger["steps"], findings)
    cell = None
    if status.get("status") == "FINISHED":
        cell = read_json(folder / schema.CELL_FILE)
        if not isinstance(cell, dict):
            raise ConfigError("cell", schema.CELL_FILE, "must be there, and a cell")
        # Which of the planned ends it was is known only now, and is in the status.
        check_cell({**ledger, "stopped_by": status.get("stopped_by")}, config, cell, findings)
        check_ending(folder, ledger, config, status, cell, findings)
        check_files(folder, ledger, status, findings)
        check_audit(folder, ledger, cell, findings, accountants=accountants)
    model = (status.get("files") or {}).get(schema.MODEL_FILE)
    check_page(folder, ledger, cell, model, findings)
    return state, status


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load((folder / schema.CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError("config", type(error).__name__, "must be there, and whole") from None
    if not isinstance(config, dict):
        raise ConfigError("config", type(config).__name__, "must be a configuration")
    return config


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
