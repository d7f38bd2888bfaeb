"""Whether a run is audited, and how (``conf/audit``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
        check_guessing(self.guesses, self.significance)


@dataclass(frozen=True)
class CanaryAudit:
    """Canaries among the training records (``conf/audit/canaries.yaml``).

    ``share`` of the records of each class, and ``tail_share`` of those of tail classes, become
    canaries, each included by a fair coin of its own: images with a wrong label (kind
    ``wrong_label``, of a tail class ``rare_wrong_label``), and of other classes ``random_share`` of
    them random inputs with a random label (``random``). The number of units, and with it q and δ,
    counts them whatever their coins. Losses of ``references`` held-out records of each kind, which
    nothing was trained on, are what a canary's exposure is ranked among.

    Bounds on ε hold with confidence 1 − ``significance``; ``guesses`` is the share of the canaries
    whose coins are guessed.
    """

    name: str
    share: float
    tail_share: float
    random_share: float
    references: int
    guesses: float
    significance: float

    def __post_init__(self) -> None:
        for key in ("share", "tail_share"):
            if not 0 < getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "must be above 0 and below 1")
        if not 0 <= self.random_share <= 1:
            raise ConfigError("random_share", self.random_share, "must be from 0 to 1")
        if self.references < 1:
            raise ConfigError("references", self.references, "must be 1 or more")
        check_guessing(self.guesses, self.significance)


@dataclass(frozen=True)
class MembershipAudit:
    """Every training record has a coin (``conf/audit/membership.yaml``): half of them are left out.

    Runs of a sweep that differ in their seed are each other's shadow models. The number of units
    counts all records, and no amplification is claimed for the coins.
    """

    name: str
    guesses: float
    significance: float

    def __post_init__(self) -> None:
        check_guessing(self.guesses, self.significance)


RecordAudit: TypeAlias = CanaryAudit | MembershipAudit
"""Audits whose coins are those of training records."""

Audit: TypeAlias = NoAudit | GradientAudit | RecordAudit


def check_guessing(guesses: float, significance: float) -> None:
    """Raise ConfigError for a share of guesses or a significance that cannot be."""
    if not 0 < guesses <= 1:
        raise ConfigError("guesses", guesses, "must be a share above 0, at most 1")
    if not 0 < significance < 0.5:
        raise ConfigError("significance", significance, "must be above 0 and below 0.5")
