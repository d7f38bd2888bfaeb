"""ε again, from the entries alone, by the accountant that certified and by another."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from typing import Any

from analysis import schema
from dpsgd.accounting import PLD, Accountant, DpEvent
from dpsgd.accounting.merging import noise_of
from dpsgd.accounting.stored import event_from_json
from dpsgd.errors import ConfigError
from dpsgd.experiment.ledger.composed import composed_event
from dpsgd.experiment.ledger.entries import by_draw, training_steps
from dpsgd.experiment.ledger.repeats import environment_of
from dpsgd.experiment.parts import build_part
from dpsgd.experiment.plan import COMPARED
from dpsgd.experiment.verify.configuration import ACCOUNTANTS
from dpsgd.experiment.verify.finding import Findings

SAME = 1e-6
"""How far, relatively, an accountant may be from the number that it gave before."""

BELOW = 0.05
"""How far below PLD, which is nearly exact, another upper bound may seem to be."""

_WHERE = schema.LEDGER_FILE


def check_numbers(ledger: Mapping[str, Any], findings: Findings) -> None:
    """Recompute every ε of a private ledger from its entries."""
    try:
        event = composed_event(ledger)
    except ConfigError as error:
        findings.that(False, "entries", _WHERE, error.allowed, f"{error.key}={error.value}")
        return
    check_sigma(ledger, findings)
    _warn_of_versions(ledger, findings)
    certified = _check_certified(ledger, event, findings)
    _check_second(ledger, event, certified, findings)


def check_sigma(ledger: Mapping[str, Any], findings: Findings) -> None:
    """Every joint release of training steps has the σ and the shares that the ledger states."""
    for (_, draw), group in by_draw(ledger["entries"]).items():
        shares = {one["purpose"]: one["share"] for one in group}
        findings.near(f"shares of draw {draw}", _WHERE, 1.0, math.fsum(shares.values()), 1e-9)
        if training_steps(draw) is None:
            continue  # another σ, which is compared with the configuration
        inverse = math.fsum(noise_of(event_from_json(one["event"])) ** -2 for one in group)
        what = f"σ of the joint release of draw {draw}"
        findings.near(what, _WHERE, ledger["noise_multiplier"], inverse**-0.5, 1e-9)
        findings.items(f"shares of draw {draw}", _WHERE, ledger["shares"], shares)


def _check_certified(ledger: Mapping[str, Any], event: DpEvent, findings: Findings) -> float | None:
    """Return the ε that certifies, recomputed; None if its accountant is not of this project."""
    name, stated = ledger["certified_by"], ledger["epsilon"]
    listed = ledger["epsilon_by_accountant"]
    findings.equal("ε beside the accountant that certifies", _WHERE, stated, listed.get(name))
    accountant = _shipped(ledger["accountant"])
    if accountant is None:
        findings.remarks.append(f"{name} is no accountant of this project: it was not asked again")
        return None
    findings.equal("certified_by", _WHERE, accountant.name, name)
    findings.that(accountant.certifies, "certifies", _WHERE, "an upper bound on ε", name)
    epsilon = accountant.epsilon(event, ledger["relation"], ledger["delta"])
    findings.near(f"ε of the entries by {name}", _WHERE, epsilon, stated, SAME)
    return epsilon


def _check_second(
    ledger: Mapping[str, Any], event: DpEvent, certified: float | None, findings: Findings
) -> None:
    """Ask the others: each must give the number listed, and no bound may lie clearly below PLD."""
    relation, delta, stated = ledger["relation"], ledger["delta"], ledger["epsilon"]
    asked = None if certified is None else ledger["certified_by"]
    found: dict[str, float] = {}
    for other in COMPARED.values():
        if other.name == asked:
            continue
        try:
            found[other.name] = other.epsilon(event, relation, delta)
        except ConfigError as error:
            findings.remarks.append(f"{other.name} was not asked: {error.allowed}")
            continue
        listed = ledger["epsilon_by_accountant"].get(other.name)
        if listed is not None:  # a loop of one's own lists the one that certifies
            what = f"ε of the entries by {other.name}"
            findings.near(what, _WHERE, found[other.name], listed, SAME)
    if asked == "pld" and not found:
        # Where Rényi accounting cannot answer, the same method on another grid still can.
        found["pld on another grid"] = PLD("pld", 3e-4).epsilon(event, relation, delta)
    for name, epsilon in found.items():
        _check_opinion(name, epsilon, stated, asked, findings)


def _check_opinion(
    name: str, epsilon: float, stated: float, asked: str | None, findings: Findings
) -> None:
    """Two upper bounds: PLD is nearly exact, so that neither may lie clearly below it."""
    findings.remarks.append(f"second opinion: {name} {epsilon:.4g}")
    if asked == "pld":
        low, high, what = epsilon, stated, f"ε by {name}, a second opinion"
    elif name == "pld":
        low, high, what = stated, epsilon, "ε beside that of pld"
    else:
        return
    least = high * (1 - BELOW)
    findings.that(low >= least, what, _WHERE, f"at least {least:.6g}", low)


def _shipped(stored: Any) -> Accountant | None:
    """Return the accountant that a ledger names, if it is one of this project: no other is run."""
    target = str(stored.get("_target_")) if isinstance(stored, Mapping) else ""
    if not target.startswith(ACCOUNTANTS):
        return None
    return build_part(stored, "accountant")


def _warn_of_versions(ledger: Mapping[str, Any], findings: Findings) -> None:
    then = environment_of(ledger).get("dp-accounting")
    now = importlib.metadata.version("dp-accounting")
    if then != now:
        findings.remarks.append(f"accounted with dp-accounting {then}, verified with {now}")
