"""Automatic clipping: every gradient is normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import Info, State, check_not_negative, ratio


@dataclass(frozen=True)
class Automatic(OneGroup):
    """w = C/(n+γ) (``AUTO-S``) or C/n (``AUTO-V``) (Bu et al., NeurIPS 2023).

    Formal guarantee: w·n ≤ C. AUTO-V is on the edge for every n ≥ NORM_FLOOR, AUTO-S approaches it
    as n grows. Below NORM_FLOOR the denominator stays there: a gradient of 0 stays 0, and one whose
    float32 norm underflowed cannot become larger than C.

    Fields: ``gamma`` γ ≥ 0, which AUTO-V does not use.
    """

    variant: Literal["AUTO-S", "AUTO-V"]
    gamma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("gamma", self.gamma)

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return C/(n+γ), or C/n."""
        added = {"AUTO-S": self.gamma, "AUTO-V": 0.0}[self.variant]
        return ratio(state["threshold"], norms.double() + added, norms)
