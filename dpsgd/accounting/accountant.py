"""What every accountant answers: the ε of an event, and the σ that meets a target ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal, Protocol, get_args

from dpsgd.accounting.library import DpEvent, NeighboringRelation
from dpsgd.errors import ConfigError, PrivacyError, did_you_mean

Relation = Literal["add_or_remove_one", "replace_one", "replace_special"]
"""The neighbouring relation; ``replace_special`` is zero-out."""


class Accountant(Protocol):
    """Turns events into ε. Stateless: the same call always gives the same answer."""

    certifies: ClassVar[bool]
    """Whether ε is an upper bound, so that it may be published."""

    @property
    def name(self) -> str:
        """The word that ledgers and tables print beside ε."""
        ...

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return the ε of ``event`` at ``delta``; inf if the event hides nothing.

        Raises:
            ConfigError: δ outside (0, 1), an unknown relation, or an event and relation that
                this accountant cannot answer for.

        """
        ...

    def calibrate(
        self,
        make_event: Callable[[float], DpEvent],
        relation: Relation,
        epsilon: float,
        delta: float,
    ) -> float:
        """Return a noise multiplier whose ε lies in ``[epsilon * (1 - 1e-3), epsilon]``.

        Raises:
            ConfigError: as :meth:`epsilon`, and where no noise multiplier meets the target.

        """
        ...


def check_certified(name: str, epsilon: float, pld: float | str | None) -> None:
    """Raise PrivacyError if an accountant claims clearly less than PLD, which is nearly exact."""
    if isinstance(pld, float) and math.isfinite(pld) and epsilon < pld / 1.05:
        raise PrivacyError(
            f"accountant={name} says ε = {epsilon:.4g} where PLD says {pld:.4g}: it cannot certify"
        )


def neighbouring_relation(relation: str) -> NeighboringRelation:
    """Return dp-accounting's constant for ``relation``; raise ConfigError if it is unknown."""
    names = get_args(Relation)
    if relation not in names:
        close = did_you_mean(str(relation), names)
        raise ConfigError("relation", relation, f"one of {', '.join(names)}{close}")
    return NeighboringRelation[relation.upper()]


def checked_delta(delta: float) -> float:
    """Return ``delta`` as a float; raise ConfigError unless 0 < δ < 1."""
    if not 0 < delta < 1:
        raise ConfigError("delta", delta, "a number with 0 < delta < 1")
    return float(delta)


def checked_target(epsilon: float) -> float:
    """Return ``epsilon`` as a float; raise ConfigError unless it is finite and above 0."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ConfigError("epsilon", epsilon, "a finite number above 0, to have a noise solved for")
    return float(epsilon)
