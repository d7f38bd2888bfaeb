"""Normalised SGD with perturbation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import Info, State, check_not_negative, ratio


@dataclass(frozen=True)
class NSGD(OneGroup):
    """w = C/(n+r) (DP-NSGD; Yang et al. 2022, arXiv 2206.13033).

    It is AUTO-S with γ = r, found independently. Formal guarantee: w·n < C, approached as n grows.

    Fields: ``r`` ≥ 0, the regulariser.
    """

    r: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("r", self.r)

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return C/(n+r)."""
        return ratio(state["threshold"], norms.double() + self.r, norms)
