"""The honest total of several runs: what all that was released from them costs together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsgd.accounting import PLD, RDP, Accountant, DpEvent, Relation, check_delta
from dpsgd.accounting.merging import composed
from dpsgd.data.notes import COMPUTED, COUNTED
from dpsgd.errors import ConfigError
from dpsgd.experiment.identity import WITHHELD
from dpsgd.experiment.ledger import composed_event
from dpsgd.experiment.own_ledger import OWN_LOOP
from dpsgd.experiment.secret import SECRET_FILE, data_of

UNKNOWN = "not known"

Ledgers = Sequence[tuple[Path, Mapping[str, Any]]]


@dataclass(frozen=True)
class Total:
    """Several runs as one release.

    ``epsilons`` holds what each accountant says of all private runs together at ``delta``, or why
    it refuses; ``not_private`` names the runs whose ε is ∞: with one of them the total is ∞.
    ``uncovered`` are statistics of the data that no ε covers.
    """

    private: tuple[Path, ...]
    not_private: tuple[Path, ...]
    unit: str
    unit_name: str
    relation: Relation
    delta: float
    largest: float
    epsilons: dict[str, float | str]
    uncovered: tuple[str, ...]

    @property
    def epsilon(self) -> float:
        """The honest total: ∞ with a run that is not private, else the least of the bounds."""
        bounds = [value for value in self.epsilons.values() if isinstance(value, float)]
        return math.inf if self.not_private or not bounds else min(bounds)


def total(ledgers: Ledgers, delta: float | None = None) -> Total:
    """Return what these runs cost together, at ``delta``, or at the δ that all of them have.

    Raises:
        ConfigError: for no run; units, relations or data that are not all the same, or data that
            are not known; two runs of one stream, or with common noise, which can be subtracted;
            and different δ where none is given.

    """
    if not ledgers:
        raise ConfigError("run", None, "needs at least one run with a ledger")
    ledgers = [(folder, _with_data(folder, ledger)) for folder, ledger in ledgers]
    for key, what in (
        ("unit", "units of privacy"),
        ("unit_name", "names of the unit"),
        ("relation", "relations"),
        ("data_fingerprint", "data"),
        ("n_units", "numbers of units"),
    ):
        _check_one(key, what, ledgers)
    _check_streams(ledgers)
    first = ledgers[0][1]
    private = [(folder, ledger) for folder, ledger in ledgers if ledger["private"]]
    chosen = _delta(private, delta)
    event = composed(composed_event(ledger) for _, ledger in private)
    epsilons = _epsilons(event, first["relation"], chosen) if private else {}
    _check_total(epsilons, private, chosen)
    return Total(
        tuple(folder for folder, _ in private),
        tuple(folder for folder, ledger in ledgers if not ledger["private"]),
        first["unit"], first["unit_name"], first["relation"], chosen,
        max((float(ledger["epsilon"]) for _, ledger in private), default=0.0),
        epsilons, _uncovered(ledgers),
    )  # fmt: skip


def _check_total(epsilons: Mapping[str, float | str], private: Ledgers, delta: float) -> None:
    """Raise ConfigError if all runs together seem to cost less than one of them says it costs."""
    total = [value for value in epsilons.values() if isinstance(value, float)]
    for folder, ledger in private:
        stated = float(ledger["epsilon"])
        if total and delta <= ledger["delta"] and min(total) < stated * (1 - 1e-3):
            raise ConfigError(
                "entries", folder.name, f"states ε = {stated:.4g}, and with the others it would "
                f"cost {min(total):.4g}: its entries were changed, or not all are there",
                f"python -m dpsgd.ledger verify {folder}",
            )  # fmt: skip


def _check_one(key: str, what: str, ledgers: Ledgers) -> None:
    found: dict[Any, Path] = {}
    for folder, ledger in ledgers:
        found.setdefault(ledger[key], folder)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        secret = key == "data_fingerprint" and any(ledger.get("release") for _, ledger in ledgers)
        shown = "withheld" if secret else f"{_short(one)} and {_short(other)}"
        raise ConfigError(
            key, shown, f"{what} differ: no one ε covers both",
            f"{first.name} has the first, {second.name} the second",
        )  # fmt: skip
    if len(ledgers) > 1 and UNKNOWN in found:
        raise ConfigError(key, UNKNOWN, "the data of these runs may be different people's")
    if len(ledgers) > 1 and WITHHELD in found:
        raise ConfigError(
            key, "withheld", "released runs do not say which data they had: these may be different "
            "people's",
            f"compose them where their {SECRET_FILE} lies, in each run's folder: it knows",
        )  # fmt: skip


def _with_data(folder: Path, ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ledger of a released run with its data's hash, if its secret is there to say."""
    if ledger.get("data_fingerprint") != WITHHELD:
        return ledger
    return {**ledger, "data_fingerprint": data_of(folder) or WITHHELD}


def _check_streams(ledgers: Ledgers) -> None:
    seen: dict[str, Path] = {}
    for folder, ledger in ledgers:
        if ledger.get("common_noise"):
            raise ConfigError(
                "debug.common_noise", folder.name, "shares its noise with other runs, on purpose: "
                "what differs between them is bare, and no ε covers it",
            )  # fmt: skip
        for stream in {ledger["stream_id"], *(one["stream_id"] for one in ledger["entries"])}:
            if stream in seen:
                raise ConfigError(
                    "stream_id", stream, f"is of {seen[stream].name} and of {folder.name}: the "
                    "same noise on two sums can be subtracted away. A copy of a run is given once",
                )  # fmt: skip
            seen[stream] = folder


def _delta(private: Ledgers, delta: float | None) -> float:
    deltas = sorted({float(ledger["delta"]) for _, ledger in private})
    n = min((ledger["n_units"] for _, ledger in private), default=0)
    if delta is None and len(deltas) > 1:
        raise ConfigError(
            "delta", ", ".join(f"{d:g}" for d in deltas), "differ: say at which one, as --delta"
        )
    chosen = delta if delta is not None else deltas[0] if deltas else 0.0
    if private:
        check_delta(chosen, n)
    return chosen


def _epsilons(event: DpEvent, relation: Relation, delta: float) -> dict[str, float | str]:
    found: dict[str, float | str] = {}
    accountants: tuple[Accountant, ...] = (PLD("pld", 1e-4), RDP("rdp", None))
    for accountant in accountants:
        try:
            found[accountant.name] = accountant.epsilon(event, relation, delta)
        except ConfigError as error:
            found[accountant.name] = f"refused: {error.allowed}"
    return found


def _uncovered(ledgers: Ledgers) -> tuple[str, ...]:
    notes = [note for _, ledger in ledgers for note in ledger["data_statistics"]]
    own = any(ledger["result_version"] == OWN_LOOP for _, ledger in ledgers)
    return tuple(
        dict.fromkeys(note for note in notes if own or note.endswith((COMPUTED, COUNTED)))
    )  # fmt: skip


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"{text[:17]}..."
