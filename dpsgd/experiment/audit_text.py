"""What an audit found, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd.accounting import format_epsilon
from dpsgd.auditing.guesses import Guesses
from dpsgd.auditing.power import reach

NO_BOUND = "no bound on ε: it is of users, and the coins are of their records"


def audit_line(cell: Mapping[str, Any]) -> str:
    """Return one line on the audit of a finished cell."""
    right, made = cell["audit_correct"], cell["audit_guesses"]
    sure = 1 - cell["audit_significance"]
    guessed = f"audit={cell['audit']}: {right} of {made} coins guessed right ({right / made:.0%})"
    if cell["audit_epsilon"] is None:
        return f"{guessed}; {NO_BOUND}"
    bounds = (
        f"ε ≥ {cell['audit_epsilon']:.3g} for any mechanism, "
        f"{cell['audit_epsilon_gaussian']:.3g} if its curve is of Gaussian shape ({sure:.0%})"
    )
    return f"{guessed}; {bounds}; {verdict(cell)}"


def verdict(cell: Mapping[str, Any]) -> str:
    """Return whether the claimed ε is refuted, or could have been."""
    if cell["audit_refuted"] is None:
        return "no ε is claimed"
    claimed = f"the claimed ε = {format_epsilon(float(cell['epsilon']))}"
    if powerless(cell):
        most, made = reach_of(cell), cell["audit_guesses"]
        bound = "" if most is None else f" (ε ≥ {most:.3g} at most)"
        return f"{claimed} could not have been refuted by {made} guesses, all of them right{bound}"
    return f"{claimed} IS REFUTED" if cell["audit_refuted"] else f"{claimed} is not refuted"


def powerless(cell: Mapping[str, Any]) -> bool:
    """Whether the audit of a run with an ε could not have refuted that, had all of its guesses been
    right: that it did not says nothing then.

    A run of before this was kept is judged by the largest bound that its guesses can give.
    """
    if cell["audit_refuted"] is not False:
        return False
    could = cell.get("audit_could_refute")
    if could is None:
        most = reach_of(cell)
        return most is not None and most < float(cell["epsilon"])
    return not could


def reach_of(cell: Mapping[str, Any]) -> float | None:
    """Return the largest lower bound that as many guesses can give; None where coins bound nothing
    or it is not known.
    """
    if cell["audit_epsilon"] is None:
        return None
    if "audit_reach" in cell or "delta" not in cell:
        return cell.get("audit_reach")
    guesses = Guesses(cell["audit_canaries"], cell["audit_guesses"], cell["audit_correct"])
    return reach(guesses, float(cell["delta"]), float(cell["audit_significance"])).largest
