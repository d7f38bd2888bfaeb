"""What an attacker reads in noised updates: of each canary, how likely it is in."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats
from torch import Tensor

REUSED = 0.5
"""Noise that is fresh makes increments spread √2 times as far as updates. Below this share of an
update's spread they hold noise that was there before.
"""
_NO_NOISE = 1e-2
"""The least spread of an increment, in units of what a canary adds: float32 rounds below that."""


class Reading:
    """Adds up the scores of canaries ``[canaries]`` float64, step by step.

    An update x, in units of what a canary adds to it at once, is N(0, s²) where the canary is not
    in, and N(k, s²) where it is and was drawn k times. Its score is the log-likelihood ratio of the
    two. ``probability`` q is that with which each of a canary's ``records`` is drawn; None: nothing
    is claimed for the draws, and the attacker is told them.

    Where the noise of a step is that of the step before, whoever takes the difference of the two is
    rid of it, and sees the canary come and go. So increments are what is read of a step if they
    spread less than half as far over the canaries as the updates do. That is decided by what was
    released, without any coin, and is no second test to correct for: a bound on guesses holds
    however they follow from the release.
    """

    def __init__(self, canaries: int, probability: float | None, records: int) -> None:
        self.scores = torch.zeros(canaries, dtype=torch.float64)
        self._chances = None
        if probability is not None:
            self._chances = np.asarray(stats.binom.pmf(range(records + 1), records, probability))
        self._last: tuple[Tensor, Tensor] | None = None

    def add(self, update: Tensor, variance: float, drawn: Tensor) -> None:
        """Read one update ``[canaries]`` float64, whose noise shall have this ``variance`` s².

        ``drawn`` ``[canaries]`` is how often each was drawn, whether it is in or not: looked at
        only if draws are told.
        """
        last, self._last = self._last, (update, drawn)
        chances, least = self._chances, 0
        if last is not None:
            increment = update - last[0]
            spread = _spread(increment)
            if spread < REUSED * _spread(update):
                update, drawn, variance = increment, drawn - last[1], spread**2
                if chances is not None:
                    least = 1 - len(chances)
                    chances = np.convolve(chances, chances[::-1])
        if chances is None:
            self.scores += _log_ratio(update, drawn.double(), variance)
        else:
            self.scores += _mixed(update, chances, least, variance)

    def state(self) -> dict[str, Tensor]:
        """Return copies of all that the next step depends on."""
        none = torch.zeros(0, dtype=torch.float64)
        update, drawn = (none, none) if self._last is None else self._last
        return {"scores": self.scores.clone(), "update": update.clone(), "drawn": drawn.clone()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        self.scores = state["scores"].clone()
        last = state["update"].clone(), state["drawn"].clone()
        self._last = last if len(last[0]) else None


def _log_ratio(update: Tensor, times: Tensor | float, variance: float) -> Tensor:
    """Return ln of the likelihood of N(k, s²) over that of N(0, s²), k = ``times``."""
    return times * (2 * update - times) / (2 * variance)


def _mixed(update: Tensor, chances: np.ndarray, least: int, variance: float) -> Tensor:
    """Return the log-likelihood ratio if k = ``least``, ``least`` + 1, … have these ``chances``."""
    # Logarithms, because the ratios themselves need not be finite.
    weights = torch.from_numpy(chances).log()
    ratios = [_log_ratio(update, least + k, variance) for k in range(len(chances))]
    return torch.logsumexp(torch.stack(ratios, dim=1) + weights, dim=1)


def _spread(values: Tensor) -> float:
    """Return the standard deviation of the half around the middle, as if it were normal: canaries
    that are drawn are few, and do not widen it.
    """
    return max(float((values - values.median()).abs().median()) / 0.6745, _NO_NOISE)
