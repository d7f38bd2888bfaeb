"""What an attacker reads in noised updates: of each canary, how likely it is in."""

from __future__ import annotations

import torch
from torch import Tensor

REUSED = 0.5
"""Noise that is fresh makes increments spread √2 times as far as updates. Below this share of an
update's spread they hold noise that was there before.
"""
_NO_NOISE = 1e-2
"""The least spread of an increment, in units of what a canary adds: float32 rounds below that."""


class Reading:
    """Adds up the scores of canaries ``[canaries]`` float64, step by step.

    An update x, in units of what a canary adds to it, is N(0, s²) where the canary is not, and
    N(1, s²) with ``probability`` q where it is. Its score is the log-likelihood ratio of the two.

    Where the noise of a step is that of the step before, whoever takes the difference of the two is
    rid of it, and sees the canary come and go: 1 or −1 with q(1 − q) each. So increments are
    what is read of a step if they spread less than half as far over the canaries as the updates do.
    That is decided by what was released, without any coin, and is no second test to correct for: a
    bound on guesses holds however they follow from the release.
    """

    def __init__(self, canaries: int, probability: float) -> None:
        self.scores = torch.zeros(canaries, dtype=torch.float64)
        self._probability = probability
        self._last: Tensor | None = None

    def add(self, update: Tensor, variance: float) -> None:
        """Read one update ``[canaries]`` float64, whose noise shall have this ``variance`` s²."""
        q, last, self._last = self._probability, self._last, update
        if last is not None:
            increment = update - last
            spread = _spread(increment)
            if spread < REUSED * _spread(update):
                ratios = [_log_ratio(increment, spread**2), _log_ratio(-increment, spread**2)]
                once = q * (1 - q)
                self.scores += _mixed([*ratios, torch.zeros_like(update)],
                                      [once, once, 1 - 2 * once])  # fmt: skip
                return
        self.scores += _mixed([_log_ratio(update, variance), torch.zeros_like(update)], [q, 1 - q])

    def state(self) -> dict[str, Tensor]:
        """Return copies of all that the next step depends on."""
        last = torch.zeros(0, dtype=torch.float64) if self._last is None else self._last
        return {"scores": self.scores.clone(), "last": last.clone()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        self.scores = state["scores"].clone()
        self._last = state["last"].clone() if len(state["last"]) else None


def _log_ratio(value: Tensor, variance: float) -> Tensor:
    """Return ln of the likelihood of N(1, s²) over that of N(0, s²)."""
    return (2 * value - 1) / (2 * variance)


def _mixed(log_ratios: list[Tensor], weights: list[float]) -> Tensor:
    """Return ln Σ_k weight_k·ratio_k, where the ratios themselves need not be finite."""
    shares = torch.tensor(weights, dtype=torch.float64).log()
    return torch.logsumexp(torch.stack(log_ratios, dim=1) + shares, dim=1)


def _spread(values: Tensor) -> float:
    """Return the standard deviation of the half around the middle, as if it were normal: canaries
    that are drawn are few, and do not widen it.
    """
    return max(float((values - values.median()).abs().median()) / 0.6745, _NO_NOISE)
