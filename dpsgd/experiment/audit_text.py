"""What an audit found, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd.accounting import format_epsilon

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
    """Return whether the claimed ε is refuted."""
    if cell["audit_refuted"] is None:
        return "no ε is claimed"
    claimed = f"the claimed ε = {format_epsilon(float(cell['epsilon']))}"
    return f"{claimed} IS REFUTED" if cell["audit_refuted"] else f"{claimed} is not refuted"
