"""The ledger against ``config.yaml``: rule, σ, q, T, relation, unit, δ, and the run's key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from analysis import schema
from dpsgd.accounting import default_delta
from dpsgd.accounting.calibration import TOLERANCE
from dpsgd.accounting.merging import noise_of
from dpsgd.accounting.stored import event_from_json, event_to_json
from dpsgd.errors import ConfigError
from dpsgd.experiment.identity import key_of
from dpsgd.experiment.ledger.content import config_hash
from dpsgd.experiment.ledger.entries import training_steps
from dpsgd.experiment.ledger.repeats import repeats_of
from dpsgd.experiment.parts import build_part
from dpsgd.experiment.settings import UNAUDITED
from dpsgd.experiment.verify.coverage import check_streams
from dpsgd.experiment.verify.finding import Findings
from dpsgd.sampling.capped_users import CappedUsers
from dpsgd.sampling.schemes import event_of, steps_to_charge

_WHERE = f"{schema.LEDGER_FILE} against {schema.CONFIG_FILE}"
_SHIPPED = "dpsgd.sampling."
ACCOUNTANTS = "dpsgd.accounting."


def check_configuration(
    ledger: Mapping[str, Any], config: Mapping[str, Any], findings: Findings
) -> None:
    """Compare what the ledger says with what was configured."""
    findings.equal("config_hash", _WHERE, config_hash(config), ledger["config_hash"])
    key = key_of(
        config, ledger["data_fingerprint"], ledger["result_version"], ledger["own_code"]
    )  # fmt: skip
    findings.equal("run_key", _WHERE, key, ledger["run_key"])
    for name in ("relation", "mechanism", "release"):
        findings.equal(name, _WHERE, config[name], ledger[name])
    findings.equal("audit", _WHERE, _audit(config), ledger.get("audit"))
    check_streams(ledger, config, findings)
    findings.equal(
        "expected_units", _WHERE, config["batch"], ledger["sampler"]["expected_units"]
    )  # fmt: skip
    findings.equal("unit", _WHERE, _unit(config), ledger["unit"])
    findings.equal("unit_name", _WHERE, config["unit_name"] or ledger["unit"], ledger["unit_name"])
    findings.items("clip_rule", _WHERE, config["clip"], ledger["clip_rule"])
    sampler = {k: v for k, v in ledger["sampler"].items() if k in config["sampling"]}
    findings.items("sampler", _WHERE, config["sampling"], sampler)
    n = ledger["n_units"]
    delta = config["delta"] or default_delta(n)
    findings.equal("δ", _WHERE, delta, ledger["delta"])
    findings.that(delta * n < 1, "δ below 1/n", _WHERE, f"below {1 / n:.3g}", delta)
    steps = config["steps"] or _steps(ledger, config)
    findings.equal("steps_planned", _WHERE, steps, ledger["steps_planned"])
    fits = ledger["steps"] <= steps
    findings.that(fits, "steps within those planned", _WHERE, f"at most {steps}", ledger["steps"])
    ended = "steps" if ledger["steps"] == steps else "budget"
    findings.equal("stopped_by", _WHERE, ended, ledger["stopped_by"])
    if ledger["private"]:
        _check_private(ledger, config, findings)


def _check_private(
    ledger: Mapping[str, Any], config: Mapping[str, Any], findings: Findings
) -> None:
    findings.items("accountant", _WHERE, config["accountant"], ledger["accountant"] or {})
    target, sigma = config["epsilon"], config["noise_multiplier"]
    if sigma is not None:
        findings.equal("σ", _WHERE, sigma, ledger["noise_multiplier"])
    if target is not None and math.isfinite(target):
        if repeats_of(ledger):
            findings.remarks.append(f"charged again: ε is beyond what was planned ({target:g})")
        else:
            findings.that(
                ledger["epsilon"] <= target, "ε within its target", _WHERE, f"at most {target}",
                ledger["epsilon"],
            )  # fmt: skip
        solved = sigma is None and str(ledger["accountant"]["_target_"]).startswith(ACCOUNTANTS)
        least = target * (1 - 2 * TOLERANCE) if solved else 0.0
        findings.that(
            ledger["epsilon"] >= least, "ε for which σ was solved", _WHERE,
            f"at least {least:g}", ledger["epsilon"],
        )  # fmt: skip
    for place, one in enumerate(ledger["entries"]):
        steps = training_steps(str(one["draw_id"]))
        if steps is None:
            continue
        for name in ("unit", "relation"):
            findings.equal(f"entries[{place}].{name}", _WHERE, ledger[name], one[name])
        _check_event(ledger, config, place, one, steps, findings)


def _check_event(
    ledger: Mapping[str, Any], config: Mapping[str, Any], place: int, one: Mapping[str, Any],
    steps: range, findings: Findings,
) -> None:  # fmt: skip
    """Let the configured sampler state the event of an entry, and q, once more."""
    try:
        facts = _facts(ledger, config)
        sigma = noise_of(event_from_json(one["event"]))
        charged = steps_to_charge(facts, steps.start, steps.stop - 1)
        event = event_to_json(event_of(facts, sigma, charged))
    except (ConfigError, TypeError, AttributeError, RuntimeError) as error:
        findings.remarks.append(f"the sampler's event was not rebuilt: {error}")
        return
    told = {key: ledger["sampler"].get(key) for key in facts}
    findings.items("sampler", _WHERE, facts, told)
    findings.nested(f"entries[{place}].event", _WHERE, event, one["event"])
    q = facts.get("sampling_probability", 1.0 if facts.get("scheme") == "full" else None)
    findings.equal(f"entries[{place}].sampling_probability", _WHERE, q,
                   one["sampling_probability"])  # fmt: skip
    findings.equal("sampler q", _WHERE, q, ledger["sampler"]["sampling_probability"])


def _audit(config: Mapping[str, Any]) -> Any:
    """Return the configured audit; None where there is none, as before there could be."""
    settings = config.get("audit") or {}
    return None if settings.get("_target_", UNAUDITED) == UNAUDITED else settings


def _unit(config: Mapping[str, Any]) -> str:
    """Return what a configuration protects: what is clipped, or whose records are capped."""
    return "user" if _protects_users(config) else config["clip"]["unit"]


def _protects_users(config: Mapping[str, Any]) -> bool:
    return config["sampling"].get("_target_") == f"{CappedUsers.__module__}.{CappedUsers.__name__}"


def _facts(ledger: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the configured sampler says of its scheme; the number of units is declared."""
    if not _protects_users(config):
        return dict(_sampler(ledger, config).facts)
    # Records are drawn and users protected. Whose records they are is not in the configuration:
    # how many of them may be used is declared, and gives q.
    n = ledger["sampler"]["n_records"]
    return {
        "scheme": str(config["sampling"]["name"]), "n_records": n,
        "sampling_probability": config["batch"] / n,
        "max_records_per_user": config["sampling"]["max_records_per_user"],
    }  # fmt: skip


def _steps(ledger: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    if not _protects_users(config):
        return _sampler(ledger, config).steps(config["epochs"])
    return math.ceil(config["epochs"] * ledger["sampler"]["n_records"] / config["batch"])


def _sampler(ledger: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Return the sampler of a configuration, units being what is clipped."""
    settings = config["sampling"]
    if not str(settings.get("_target_")).startswith(_SHIPPED):
        raise ConfigError("sampling", settings.get("_target_"), "is no sampler of this project")
    source, n, batch = build_part(settings, "sampling"), ledger["n_units"], config["batch"]
    if ledger["unit"] == "record":
        return source.records(n, batch)
    # Who owns what changes the draws, and not what they cost.
    return source.users(torch.zeros(0, dtype=torch.int64), n, batch)
