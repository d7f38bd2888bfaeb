"""Per-sample adaptive clipping."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import NORM_FLOOR, Info, State, check_not_negative, ratio


@dataclass(frozen=True)
class PSAC(OneGroup):
    """w = C/(n + r/(n+r)) (DP-PSAC; Xia et al., AAAI 2023).

    Small gradients get weight C rather than C/γ, so that units which are learnt do not dominate.
    Formal guarantee: w·n < C, approached as n grows; with r = 0 this is AUTO-V.

    Fields: ``r`` ≥ 0.
    """

    r: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("r", self.r)

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return C/(n + r/(n+r))."""
        exact = norms.double()
        added = self.r / (exact + self.r).clamp(min=NORM_FLOOR)
        return ratio(state["threshold"], exact + added, norms)
