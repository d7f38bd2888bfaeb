"""The audit of a finished run against its coins, and its claim against the audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import schema
from dpsgd.auditing.guesses import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    guess,
    refutes,
)
from dpsgd.auditing.power import all_right, reach
from dpsgd.errors import ConfigError
from dpsgd.experiment.audit_text import audit_line
from dpsgd.experiment.audited import claimed_curve
from dpsgd.experiment.ledger.composed import composed_event
from dpsgd.experiment.ledger.repeats import repeats_of
from dpsgd.experiment.verify.finding import Findings

_WHERE = f"{schema.CELL_FILE} against {schema.AUDIT_FILE}"
_SAME = 1e-4
"""How far, relatively, a bound may be from the one that was found before."""


def check_audit(
    folder: Path, ledger: Mapping[str, Any], cell: Mapping[str, Any], findings: Findings, *,
    accountants: bool,
) -> None:  # fmt: skip
    """Guess the coins again from their scores, and say what that means for the claimed ε.

    A claim that its own audit refutes does not hold. ``accountants`` also holds the guesses to the
    privacy profile of the ledger's entries once more.
    """
    if "audit" not in ledger:
        return
    try:
        table = pd.read_parquet(folder / schema.AUDIT_FILE, columns=["score", "included"])
    except (OSError, ValueError, KeyError) as error:
        findings.that(False, "audit", schema.AUDIT_FILE, "coins and scores", repr(error))
        return
    made = int(cell["audit_guesses"])
    guesses = guess(table["score"].to_numpy(np.float64), table["included"].to_numpy(bool), made)
    findings.equal("audit_canaries", _WHERE, guesses.canaries, cell["audit_canaries"])
    findings.equal("audit_correct", _WHERE, guesses.correct, cell["audit_correct"])
    findings.remarks.append(audit_line(cell))
    if cell["audit_epsilon"] is None:
        return
    significance, delta = float(cell["audit_significance"]), float(ledger["delta"])
    for name, bound in (
        ("audit_epsilon", epsilon_of_guesses),
        ("audit_epsilon_gaussian", gaussian_epsilon_of_guesses),
        ("audit_reach", _reach),
    ):
        if name not in cell:  # a run of before this was kept
            continue
        found = bound(guesses, delta, significance)
        findings.near(name, _WHERE, found, cell[name], _SAME)
    if ledger["private"]:
        claim = f"ε = {ledger['epsilon']}"
        stated = bool(cell["audit_refuted"])
        findings.that(not stated, "claim that the audit refutes", schema.AUDIT_FILE, claim, "more")
        if accountants and not repeats_of(ledger):
            try:
                event = composed_event(ledger)
            except ConfigError:
                return  # said where ε is computed again
            curve = claimed_curve(event, ledger["relation"], float(ledger["epsilon"]))
            for name, made in (
                ("audit_refuted", guesses), ("audit_could_refute", all_right(guesses))
            ):  # fmt: skip
                if name in cell:
                    findings.equal(name, _WHERE, refutes(made, curve, significance), cell[name])


def _reach(guesses: Guesses, delta: float, significance: float) -> float:
    return reach(guesses, delta, significance).largest
