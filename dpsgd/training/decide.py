"""What is decided while training, from what was seen of the validation split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpsgd.clipping.rule import ReleasePurpose
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class NoDecisions:
    """Nothing is decided: all steps are taken, and the last parameters released."""

    name: str


@dataclass(frozen=True)
class Decision:
    """``best`` is the place of the highest score, ``stop`` whether it is time to end."""

    best: int
    stop: bool


@dataclass(frozen=True)
class Validation:
    """Looks at the validation split every ``every`` steps; what follows from the scores alone is
    post-processing.

    Where validation data are public a look is read as it is. Where they are not, it is a noised
    count inside ε; how many looks there are is fixed before training, and σ of the steps is solved
    for all of them. Stopping early saves time and no ε.
    """

    name: str
    every: int
    patience: int | None
    min_gain: float
    select: bool
    noise: float

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError("every", self.every, "must be at least 1 step")
        if self.patience is not None and self.patience < 1:
            raise ConfigError("patience", self.patience, "must be at least 1 look, or null")
        if not (math.isfinite(self.min_gain) and self.min_gain >= 0):
            raise ConfigError("min_gain", self.min_gain, "must be a finite number, 0 or above")
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise ConfigError("noise", self.noise, "must be a finite number above 0")
        if self.patience is None and not self.select:
            raise ConfigError(
                "select", False, "nothing would be decided: say select=true, or give a patience"
            )

    @property
    def purpose(self) -> ReleasePurpose:
        """What the looks are for: early stopping, selection, or both, which is validation."""
        if self.patience is None:
            return "selection"
        return "validation" if self.select else "early stopping"

    def looks(self, steps: int) -> tuple[int, ...]:
        """Return the steps after which to look, of ``steps`` that are planned.

        The last step is looked at only for selection: there is nothing left to stop.
        """
        between = range(self.every, steps, self.every)
        return (*between, steps) if self.select else tuple(between)

    def check(self, steps: int) -> None:
        """Raise ConfigError if so few looks fit into ``steps`` that they can decide nothing."""
        needed = 2 if self.select else (self.patience or 0) + 1
        count = len(self.looks(steps))
        if count < needed:
            raise ConfigError(
                "every", self.every, f"leaves {count} looks in {steps} steps, and a decision "
                f"needs {needed}; look more often, or train longer",
            )  # fmt: skip

    def decided(self, scores: Sequence[float]) -> Decision:
        """Return what ``scores``, one of each look so far, decide. Of equal ones the first is best.

        The first look is a gain. Later ones are if they exceed the last gain by more than
        ``min_gain``; ``patience`` looks in a row without one end training.
        """
        gained, since = -math.inf, 0
        for score in scores:
            since += 1
            if score > gained + self.min_gain:
                gained, since = score, 0
        stop = self.patience is not None and since >= self.patience
        return Decision(max(range(len(scores)), key=lambda i: scores[i]), stop)
