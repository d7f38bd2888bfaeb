"""How ε and δ are written, the same everywhere, and never smaller than they are."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from dpsgd.accounting.accountant import Relation
from dpsgd.errors import ConfigError

_DIGITS = 3


def format_epsilon(epsilon: float) -> str:
    """Return ε in at most three significant digits, rounded up; ∞ for inf.

    Raises:
        ConfigError: for a negative ε or NaN.

    """
    if not epsilon >= 0:
        raise ConfigError("epsilon", epsilon, "a number >= 0 or inf")
    if math.isinf(epsilon):
        return "∞"
    return f"{_rounded_up(epsilon).normalize():f}"


def format_delta(delta: float) -> str:
    """Return δ in at most three significant digits, rounded up, such as ``1e-4``.

    Raises:
        ConfigError: for a negative δ or NaN.

    """
    if not 0 <= delta < math.inf:
        raise ConfigError("delta", delta, "a number >= 0")
    value = _rounded_up(delta).normalize()
    if value == 0:
        return "0"
    exponent = value.adjusted()
    return f"{value.scaleb(-exponent):f}e{exponent}"


def unit_text(unit: str, name: str) -> str:
    """Return the unit for people: ``record``, or ``user (patient)``.

    The unit comes first, so that no name can pass a record for a person.
    """
    return unit if name == unit else f"{unit} ({name})"


def neighbours_text(relation: Relation, unit: str) -> str:
    """Return what two neighbouring training splits are."""
    whole = "with all its records" if unit == "user" else "of any content"
    return {
        "add_or_remove_one": f"two training splits, of which one has one {unit} more, {whole}",
        "replace_one": f"two training splits with as many {unit}s each, one of which is another in "
        f"the other split, {whole}",
        "replace_special": f"two training splits with the same {unit}s, one of which contributes "
        "nothing in one of them (zero-out)",
    }[relation]


def _rounded_up(number: float) -> Decimal:
    """Round the shortest decimal that reads back as ``number``, so that 2.38 stays 2.38."""
    value = Decimal(repr(float(number)))
    if value == 0:
        return Decimal(0)
    return value.quantize(Decimal(1).scaleb(value.adjusted() - _DIGITS + 1), ROUND_CEILING)
