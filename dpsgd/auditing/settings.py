"""Whether a run is audited, and how (``conf/audit``)."""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class NoAudit:
    """No audit (``conf/audit/none.yaml``)."""

    name: str


@dataclass(frozen=True)
class GradientAudit:
    """Gradient canaries: a white-box audit of ε in one run (``conf/audit/gradient.yaml``).

    ``canaries`` units beside those of the data, each included by a fair coin of its own, whose
    gradient is known and fills what the clipping rule lets one unit do. An attacker who sees every
    noised update guesses the coins of the ``guesses`` share that it is surest of. The number of
    units, and with it q and δ, counts all of them, whatever their coins.

    The bounds hold with confidence 1 − ``significance``.
    """

    name: str
    canaries: int
    guesses: float
    significance: float

    def __post_init__(self) -> None:
        if self.canaries < 2:
            raise ConfigError("canaries", self.canaries, "must be 2 or more")
        if not 0 < self.guesses <= 1:
            raise ConfigError("guesses", self.guesses, "must be a share above 0, at most 1")
        if not 0 < self.significance < 0.5:
            raise ConfigError("significance", self.significance, "must be above 0 and below 0.5")
