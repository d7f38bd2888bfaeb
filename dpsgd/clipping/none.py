"""No clipping: the reference without a bound, and so without a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Info, State, Unit, check_unit


@dataclass(frozen=True)
class NoClipping(ClipRule):
    """w = 1 and an infinite scale, which no noise covers: a step with noise refuses it."""

    name: str
    unit: Unit
    bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_unit(self.unit)

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return the infinite scale of every clip group."""
        return {"scale": torch.full((len(groups),), math.inf, dtype=torch.float64)}

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return ones."""
        return torch.ones_like(norms)

    def scale(self, state: State) -> Tensor:
        """Return ∞ for every clip group."""
        return state["scale"]

    def threshold(self, state: State) -> float:
        """Return ∞: nothing bounds a unit's contribution."""
        return math.inf
