"""Global clipping: one factor for all, and nothing of what is larger than Z."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import Info, State, check_above_zero, ratio


@dataclass(frozen=True)
class Global(OneGroup):
    """w = C/Z if n ≤ Z, else 0 (Bu et al., arXiv 2106.07830).

    Every unit that stays is scaled alike, so that the mean keeps its direction. Formal guarantee:
    w·n ≤ C, reached at n = Z only.

    Fields: ``bound`` Z > 0, public: above the largest norm nothing is lost but size.
    """

    bound: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero("bound", self.bound)

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return C/Z if n ≤ Z, else 0."""
        bound = torch.full_like(norms, self.bound, dtype=torch.float64)
        kept = ratio(state["threshold"], bound, norms)
        return torch.where(norms.double() <= bound, kept, 0.0)
