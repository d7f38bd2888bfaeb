"""Adaptive clipping that never goes below a public threshold."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpsgd.clipping.adaptive import Adaptive
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import State, check_norm


@dataclass(frozen=True)
class BoundedAdaptive(Adaptive):
    """Adaptive clipping with C ← max(C_min, ·) after every update (arXiv 2506.01396).

    Without it, C follows the easy majority down and clips the rare units that still learn.
    ``floor`` C_min is public: declared, not read off the data. It also holds at the start, where
    C_0 = max(C_min, norm). Formal guarantee: that of :class:`Adaptive`, as max(C_min, ·) reads only
    what was noised.
    """

    floor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_norm("floor", self.floor)

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return max(C_min, C_0) and ρ; raises as :meth:`Adaptive.bind`."""
        return self._raised(super().bind(groups, noise_multiplier, expected_units))

    def update(self, state: State, answer: Tensor) -> State:
        """Return the state with max(C_min, C·exp(−η(b̃−γ)))."""
        return self._raised(super().update(state, answer))

    def _raised(self, state: State) -> State:
        return {**state, "threshold": state["threshold"].clamp(min=self.floor)}
