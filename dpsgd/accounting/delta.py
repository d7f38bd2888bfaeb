"""δ: its default from the number of units, and the bound that it must keep."""

from __future__ import annotations

from fractions import Fraction

from dpsgd.accounting.accountant import checked_delta
from dpsgd.errors import ConfigError


def default_delta(n_units: int) -> float:
    """Return ``n_units``^-1.1 rounded down to one significant digit, such as 1e-4 for 3700.

    Raises:
        ConfigError: for fewer than two units, where no δ is below 1/n and above 0.

    """
    if n_units < 2:
        raise ConfigError("delta", None, f"needs at least 2 units, there are {n_units}")
    exponent = 0
    while _exceeds(1, exponent, n_units):
        exponent -= 1
    digit = next(d for d in range(9, 0, -1) if not _exceeds(d, exponent, n_units))
    return float(f"{digit}e{exponent}")


def check_delta(delta: float, n_units: int) -> None:
    """Raise ConfigError unless 0 < ``delta`` < 1 and ``delta`` < 1/``n_units``.

    A δ of 1/n allows the publication of one random unit, whole.
    """
    checked_delta(delta)
    if delta * n_units >= 1:
        allowed = f"must be below 1/{n_units} = {1 / n_units:.3g}, one over the number of units"
        hint = f"delta=null takes {default_delta(n_units):g}" if n_units > 1 else ""
        raise ConfigError("delta", delta, allowed, hint)


def _exceeds(digit: int, exponent: int, n_units: int) -> bool:
    """Whether digit·10^exponent > n^-1.1, exactly: both sides to the tenth power."""
    return (Fraction(digit) * Fraction(10) ** exponent) ** 10 * n_units**11 > 1
