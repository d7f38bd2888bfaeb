"""What an engine hands over for one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Outputs and targets of ``[rows]`` to losses ``[rows]``; row i must depend on row i alone."""


class UnitGradients(Protocol):
    """The gradients of one batch's units, never all in memory unless an engine needs them so."""

    @property
    def losses(self) -> Tensor:
        """``[units]`` losses, detached."""
        ...

    def norms(self) -> Tensor:
        """``[units, groups]`` L2 norm of each unit's gradient in each clip group, float32 or 64."""
        ...

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u for every parameter, given ``[units, groups]`` weights."""
        ...


class Engine(Protocol):
    """Captures the per-unit gradients of one batch."""

    name: str

    def capture(
        self, model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor, groups: Groups
    ) -> UnitGradients:
        """Run the model once on ``inputs`` ``[units, ...]`` and return its units' gradients."""
        ...


@dataclass(frozen=True)
class NoUnits:
    """An empty draw: no norms, and sums of zero, on which the step puts its noise all the same."""

    like: dict[str, Tensor]
    groups: Groups

    @property
    def losses(self) -> Tensor:
        """``[0]`` losses."""
        return next(iter(self.like.values())).new_zeros(0)

    def norms(self) -> Tensor:
        """``[0, groups]`` norms."""
        return next(iter(self.like.values())).new_zeros(0, len(self.groups))

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Zeros in the shape of every parameter."""
        return {name: torch.zeros_like(value) for name, value in self.like.items()}


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """Return the detached trainable parameters by name; a tied parameter has its first name."""
    return {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
