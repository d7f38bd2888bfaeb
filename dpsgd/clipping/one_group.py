"""What the rules with one clip group share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, State, Unit, check_norm, check_unit


@dataclass(frozen=True)
class OneGroup(ClipRule):
    """A rule for the whole gradient with w·n ≤ C: scale C, and nothing asked of a unit."""

    name: str
    unit: Unit
    norm: float

    def __post_init__(self) -> None:
        check_unit(self.unit)
        check_norm("norm", self.norm)

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return C; raises ValueError for more than one clip group."""
        if len(groups) != 1:
            raise ValueError(f"{self.name} clipping has one clip group, got {groups.names}")
        return {"threshold": torch.tensor([self.norm], dtype=torch.float64)}

    def scale(self, state: State) -> Tensor:
        """Return C."""
        return state["threshold"]

    def threshold(self, state: State) -> float:
        """Return C."""
        return float(state["threshold"])
