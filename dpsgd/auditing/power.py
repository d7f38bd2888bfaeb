"""What an audit could have said at most: all of its guesses right."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsgd.auditing.guesses import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
)


@dataclass(frozen=True)
class Reach:
    """The largest lower bounds on ε that a number of guesses can give, ``any_mechanism`` and for a
    trade-off curve of ``gaussian`` shape.
    """

    any_mechanism: float
    gaussian: float

    @property
    def largest(self) -> float:
        """The larger of both."""
        return max(self.any_mechanism, self.gaussian)


def all_right(guesses: Guesses) -> Guesses:
    """Return as many guesses, none of them wrong: no audit that makes so many says more."""
    return replace(guesses, correct=guesses.made)


def reach(guesses: Guesses, delta: float, significance: float) -> Reach:
    """Return what ``guesses`` would say of ε at ``delta``, had all of them been right."""
    best = all_right(guesses)
    return Reach(
        epsilon_of_guesses(best, delta, significance),
        gaussian_epsilon_of_guesses(best, delta, significance),
    )
