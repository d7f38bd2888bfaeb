"""Decisions during training: what was planned against the configuration, what happened against
what the looks said.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import schema
from dpsgd.accounting.sampled import full_batches
from dpsgd.accounting.stored import event_to_json
from dpsgd.errors import ConfigError
from dpsgd.experiment.decisions import looks_after
from dpsgd.experiment.ledger.decisions import DRAW
from dpsgd.experiment.looked import EARLY
from dpsgd.experiment.parts import build_part
from dpsgd.experiment.settings import UNDECIDED
from dpsgd.experiment.verify.coverage import beginnings
from dpsgd.experiment.verify.finding import Findings
from dpsgd.training.decide import Validation
from dpsgd.training.looks import ending_of

_WHERE = f"{schema.LEDGER_FILE} against {schema.CONFIG_FILE}"
_OF_CELL = ("steps_taken", "step_released", "looks_taken")


def may_stop_early(ledger: Mapping[str, Any]) -> bool:
    """Whether the looks of this ledger may end training."""
    return ledger.get("decisions", {}).get("purpose") in ("early stopping", "validation")


def check_planned(ledger: Mapping[str, Any], config: Mapping[str, Any], findings: Findings) -> None:
    """Compare the looks in the ledger, and their entry, with what was configured."""
    decide = _decide(config)
    decisions = ledger.get("decisions")
    entries = [one for one in ledger["entries"] if one["draw_id"] == DRAW]
    findings.equal("decisions", _WHERE, decide is not None, decisions is not None)
    if decide is None or decisions is None:
        findings.equal("entries of looks", _WHERE, 0, len(entries))
        return
    looks = decide.looks(ledger["steps"])
    findings.equal("decisions purpose", _WHERE, decide.purpose, decisions["purpose"])
    findings.equal("steps of the looks", _WHERE, list(looks), decisions["steps"])
    release, declared = decisions["release"], config["data"].get("holdout")
    if release == "public":
        findings.equal("looks read as public", _WHERE, "public", declared)
    findings.equal("looks of a private run", _WHERE, ledger["private"], release != "private")
    # Those of an earlier attempt, and again those that came after it went on elsewhere.
    counts = {
        stream: len(looks_after(decide, ledger["steps"], after))
        for stream, after in beginnings(ledger).items()
    }
    counts = {k: count for k, count in counts.items() if count and release == "accounted"}
    findings.equal("entries of looks", _WHERE, len(counts), len(entries))
    if release == "accounted":
        findings.equal("σ of the looks", _WHERE, decide.noise, decisions["noise_multiplier"])
        for one in entries:
            known = ", ".join(counts) or "no more of them"
            count = counts.pop(str(one["stream_id"]), None)
            what = "entry of the looks, stream_id"
            findings.that(count is not None, what, _WHERE, known, one["stream_id"])
            if count is not None:
                _check_entry(ledger, decide, count, one, findings)


def check_ending(
    folder: Path, ledger: Mapping[str, Any], config: Mapping[str, Any],
    status: Mapping[str, Any], cell: Mapping[str, Any], findings: Findings,
) -> None:  # fmt: skip
    """Let the scores that were kept decide once more, and compare how the run ended."""
    decide, where = _decide(config), f"{schema.EVALUATION_FILE} against {schema.CELL_FILE}"
    if decide is None:
        findings.equal("decisions", where, [], [name for name in _OF_CELL if name in cell])
        return
    table = pd.read_parquet(folder / schema.EVALUATION_FILE)
    table = table[table["metric"] == schema.LOOK]
    planned = decide.looks(ledger["steps"])
    steps = [int(step) for step in table["step"]]
    findings.equal("steps looked at", where, list(planned[: len(steps)]), steps)
    ending = ending_of(decide, ledger["steps"], [float(value) for value in table["value"]])
    last = max((step for step in planned if step <= ending.taken), default=0)
    findings.equal("last look", where, last, max(steps, default=0))
    for name, value in zip(
        _OF_CELL, (ending.taken, ending.released, len(ending.scores)), strict=True
    ):
        findings.equal(name, where, value, cell.get(name))
    findings.equal("step", schema.STATUS_FILE, ending.taken, status.get("step"))
    findings.equal("stopped early", where, ending.early, cell["stopped_by"] == EARLY)


def _check_entry(
    ledger: Mapping[str, Any], decide: Validation, count: int, one: Mapping[str, Any],
    findings: Findings,
) -> None:  # fmt: skip
    expected = {
        "purpose": decide.purpose, "noise_multiplier": decide.noise, "share": 1.0, "steps": count,
        "sampling_probability": 1.0, "unit": ledger["unit"], "relation": ledger["relation"],
        "event": event_to_json(full_batches(decide.noise, count)),
    }  # fmt: skip
    for name, value in expected.items():
        findings.nested(f"entry of the looks, {name}", _WHERE, value, one.get(name))


def _decide(config: Mapping[str, Any]) -> Validation | None:
    """Return the configured decisions; None where there are none, as before they could be."""
    settings = config.get("decide") or {}
    target = settings.get("_target_", UNDECIDED)
    if target == UNDECIDED:
        return None
    if target != f"{Validation.__module__}.{Validation.__name__}":
        raise ConfigError("decide", target, "makes no decisions of this project")
    return build_part(settings, "decide")
