"""Flat clipping: one threshold for the whole gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Info, State, Unit, check_norm, check_unit, clip_factor


@dataclass(frozen=True)
class Flat(ClipRule):
    """w = min(1, C/n), scale C (Abadi et al., CCS 2016, Algorithm 1)."""

    name: str
    unit: Unit
    norm: float

    def __post_init__(self) -> None:
        check_unit(self.unit)
        check_norm("norm", self.norm)

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return the state of one clip group; raises ValueError for more."""
        if len(groups) != 1:
            raise ValueError(f"flat clipping has one clip group, got {groups.names}")
        return {"threshold": torch.tensor([self.norm], dtype=torch.float64)}

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return min(1, C/n)."""
        return clip_factor(norms, state["threshold"])

    def scale(self, state: State) -> Tensor:
        """Return C."""
        return state["threshold"]

    def threshold(self, state: State) -> float:
        """Return C."""
        return float(state["threshold"])
