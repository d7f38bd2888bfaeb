"""What may be chosen from: private runs without an audit, at one ε and on one footing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from analysis.footing import Footing, footings
from analysis.lines import Family, Line, private_lines
from analysis.wording import counted

AUDITED = "trained with what an audit put in or left out, and not to be released"


@dataclass(frozen=True)
class Candidates:
    """``lines`` at one ``epsilon`` with the conditions that may be chosen, and their ``runs``.

    ``audited`` counts the private runs that were trained to be audited; ``apart`` says in words
    which others of that ε stand on another footing.
    """

    epsilon: float
    lines: tuple[Line, ...]
    runs: tuple[str, ...]
    audited: int
    apart: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """Return a sentence on the private runs that are no candidates; empty without any."""
        told: list[str] = []
        if self.audited:
            told.append(f"{counted(self.audited, 'audited run')}, {AUDITED}")
        if self.apart:
            told.append(f"{'; '.join(self.apart)}: another guarantee, other data or another length")
        return f"Not among them: {'; and '.join(told)}." if told else ""


def candidates(cells: Family) -> Candidates:
    """Return those with the most runs, of equals those at the main ε; no lines where every private
    run was audited.
    """
    private = cells.named.loc[cells.named["part"] == "private", :]
    found = footings(cells.table, private)
    number: Counter[tuple[str, Footing]] = Counter()
    of_condition: dict[int, tuple[str, Footing]] = {}
    for condition, epsilon in zip(private["condition"], private["shown_epsilon"], strict=True):
        of_condition[condition] = (f"{epsilon:g}", found[condition])
        number[of_condition[condition]] += not found[condition].audit
    audited = sum(bool(found[condition].audit) for condition in private["condition"])
    main = f"{cells.epsilon:g}"
    chosen = max(number, key=lambda one: (number[one], one[0] == main), default=None)
    if chosen is None or not number[chosen]:
        return Candidates(cells.epsilon, (), (), audited, ())
    own = private.loc[[of_condition[c] == chosen for c in private["condition"]], :]
    apart = tuple(
        f"{counted(runs, 'run')} with {footing.beside(chosen[1])}"
        for (epsilon, footing), runs in number.items()
        if epsilon == chosen[0] and footing != chosen[1] and runs
    )
    lines = tuple(private_lines(cells.table, own))
    return Candidates(lines[0].epsilon, lines, tuple(own["run_key"]), audited, apart)
