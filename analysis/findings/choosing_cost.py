"""What it cost in ε to have chosen, and the command that adds it up."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from analysis import schema
from analysis.findings.candidates import Candidates
from analysis.lines import Family
from analysis.wording import counted

_SAME = ("unit", "unit_name", "relation", "data_fingerprint", "n_units")
_LETTERS = 8


def choosing_cost(cells: Family, among: Candidates, runs: Path | None) -> str:
    """Return what choosing among runs cost, with a command that composes their ledgers.

    The command names the folder if one ε covers all that is in it; else the private runs, finished
    or not, that share δ, unit and data with the candidates, as no other has a total with them.
    """
    looked = cells.named.loc[cells.named["part"] == "private", "run_key"]
    total = _Total.of(runs, among.runs)
    missing = len(set(looked) - set(total.private)) if total.private else 0
    unseen = len(set(total.private) - set(looked))
    words = [
        f"What choosing costs: {_split(cells)}; but the choice was made by looking at"
        f" {counted(len(looked), 'private run')}, all trained on the private data, and each ε"
        " covers one run only. Releasing the best alone costs as much as releasing all of them; the"
        f" total{f', with {unseen} more of the folder,' if unseen else ''}"
        f" is what `python -m dpsgd.ledger compose {total.named}` says{total.without_noise}."
    ]
    if missing:
        words.append(
            f"That leaves out {missing} of these runs, of another δ, unit or number of records: no"
            " one ε covers both, and what they cost comes on top."
        )
    return " ".join([*words, "Settings chosen on other, public data cost nothing."])


@dataclass(frozen=True)
class _Total:
    """The ``private`` runs that can be composed, empty where no ledger was read; ``named``, how the
    command names them; and ``without_noise``, what becomes of runs that have no ε.
    """

    private: tuple[str, ...]
    named: str
    without_noise: str

    @classmethod
    def of(cls, runs: Path | None, keys: Sequence[str]) -> _Total:
        """Compose what goes together with the runs ``keys``."""
        folder = shlex.quote("runs" if runs is None else str(runs))
        ledgers = _ledgers(runs)
        first = next((ledgers[key] for key in keys if key in ledgers), None)
        among = ", and runs without noise among them make it ∞"
        if first is None:
            return cls((), folder, among)
        fits = {key: own for key, own in ledgers.items()
                if all(own.get(name) == first.get(name) for name in _SAME)}  # fmt: skip
        private = {key: own for key, own in fits.items() if own.get("private")}
        same = sorted(key for key, own in private.items() if own.get("delta") == first.get("delta"))
        if len(fits) == len(ledgers) and len(same) == len(private):
            return cls(tuple(same), folder, among if len(same) < len(fits) else "")
        letters = next(n for n in range(_LETTERS, 1000) if _told_apart(same, ledgers, n))
        listed = " ".join(shlex.quote(key[:letters]) for key in same)
        return cls(tuple(same), f"--runs-dir {folder} {listed}",
                   "; runs without noise, which it leaves out, would make it ∞")  # fmt: skip


def _told_apart(keys: Sequence[str], every: Mapping[str, Any], letters: int) -> bool:
    starts = [key[:letters] for key in every]
    return all(starts.count(key[:letters]) == 1 or len(key) <= letters for key in keys)


def _ledgers(runs: Path | None) -> dict[str, Mapping[str, Any]]:
    """Return the readable ledgers of a folder by run key."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(runs.glob(f"*/{schema.LEDGER_FILE}")) if runs is not None else ():
        try:
            content = orjson.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            found[path.parent.name] = content
    return found


def _split(cells: Family) -> str:
    column = "config.data.holdout"
    holdout = set(cells.table[column].dropna()) if column in cells.table else set()
    if holdout == {"public"}:
        return "the validation split is declared public, so that reading its scores costs no ε"
    if holdout == {"private"}:
        return (
            "the validation split is private, and its raw scores are outside ε: decide by noised"
            " looks (decide=validation) if it has to be protected"
        )
    return "whether the validation split is public is not stated (data.holdout)"
