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
_LOOKED = 200
"""So many canaries tell how far an update spreads."""
_BLOCK = 16
"""Steps that are read at once: of one alone most time goes into calls."""


class Reading:
    """Adds up the scores of canaries ``[canaries]`` float64 over the steps.

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
        self._scores = torch.zeros(canaries, dtype=torch.float64)
        self._chances = None
        if probability is not None:
            self._chances = np.asarray(stats.binom.pmf(range(records + 1), records, probability))
        self._last: tuple[Tensor, Tensor] | None = None
        self._waiting: list[tuple[Tensor, float, Tensor]] = []

    def add(self, update: Tensor, variance: float, drawn: Tensor) -> None:
        """Read one update ``[canaries]`` float64, whose noise shall have this ``variance`` s².

        ``drawn`` ``[canaries]`` is how often each was drawn, whether it is in or not: looked at
        only if draws are told.
        """
        self._waiting.append((update, variance, drawn))
        if len(self._waiting) == _BLOCK:
            self._read()

    @property
    def scores(self) -> Tensor:
        """``[canaries]`` float64: how likely each is in."""
        if self._waiting:
            self._read()
        return self._scores

    def state(self) -> dict[str, Tensor]:
        """Return copies of all that the next step depends on."""
        nothing = torch.zeros(0, len(self._scores), dtype=torch.float64)
        steps = [] if self._last is None else [(self._last[0], 0.0, self._last[1])]
        steps += self._waiting
        return {
            "scores": self._scores.clone(),
            "updates": torch.stack([step[0] for step in steps]) if steps else nothing,
            "variances": torch.tensor([step[1] for step in steps], dtype=torch.float64),
            "drawn": torch.stack([step[2] for step in steps]) if steps else nothing,
            "waiting": torch.tensor(len(self._waiting)),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        self._scores = state["scores"].clone()
        variances: list[float] = state["variances"].tolist()
        steps = list(zip(state["updates"], variances, state["drawn"], strict=True))
        before = len(steps) - int(state["waiting"])
        self._last = (steps[0][0], steps[0][2]) if before else None
        self._waiting = steps[before:]

    def _read(self) -> None:
        """Read the steps that wait."""
        update = torch.stack([step[0] for step in self._waiting])
        variance = torch.tensor([[step[1]] for step in self._waiting], dtype=torch.float64)
        drawn = torch.stack([step[2] for step in self._waiting]).double()
        last = (update[0], drawn[0]) if self._last is None else self._last
        increment = update - torch.cat([last[0].unsqueeze(0), update[:-1]])
        spread = _spread(increment)
        again = spread < REUSED * _spread(update)
        if self._last is None:
            again[0] = False  # there is no step before the first
        self._last, self._waiting = (update[-1], drawn[-1]), []
        fresh = ~again
        found = torch.empty_like(update)
        chances = self._chances
        if chances is None:
            found[fresh] = _log_ratio(update[fresh], drawn[fresh], variance[fresh])
        else:
            found[fresh] = _mixed(update[fresh], chances, 0, variance[fresh])
        if bool(again.any()):
            near = spread[again].unsqueeze(1).square()
            if chances is None:
                change = drawn - torch.cat([last[1].double().unsqueeze(0), drawn[:-1]])
                found[again] = _log_ratio(increment[again], change[again], near)
            else:
                both = np.convolve(chances, chances[::-1])
                found[again] = _mixed(increment[again], both, 1 - len(chances), near)
        self._scores = self._scores + found.sum(0)


def _log_ratio(update: Tensor, times: Tensor | float, variance: Tensor) -> Tensor:
    """Return ln of the likelihood of N(k, s²) over that of N(0, s²), k = ``times``."""
    return times * (2 * update - times) / (2 * variance)


def _mixed(update: Tensor, chances: np.ndarray, least: int, variance: Tensor) -> Tensor:
    """Return the log-likelihood ratio if k = ``least``, ``least`` + 1, … have these ``chances``."""
    # Logarithms, because the ratios themselves need not be finite.
    weights: list[float] = np.log(
        chances, where=chances > 0, out=np.full(len(chances), -np.inf)
    ).tolist()
    total = torch.full_like(update, -torch.inf)
    for k, weight in enumerate(weights, least):
        total = torch.logaddexp(total, _log_ratio(update, k, variance) + weight)
    return total


def _spread(values: Tensor) -> Tensor:
    """Return the standard deviation ``[steps]`` of the half around the middle of ``values``
    ``[steps, canaries]``, as if it were normal: canaries that are drawn are few, and do not widen
    it.
    """
    some = values[:, :_LOOKED]
    around = (some - some.median(1, keepdim=True).values).abs()
    return (around.median(1).values / 0.6745).clamp(min=_NO_NOISE)
