"""What an engine hands over for one batch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.rows import Batch

Combine: TypeAlias = Literal["average", "sum"]

Loss: TypeAlias = Callable[[Any, Any], Tensor]
"""Outputs and targets of ``[rows]`` to losses ``[rows]``; row i must depend on row i alone."""


@dataclass(frozen=True)
class Units:
    """Which unit each row of a batch is of.

    Attributes:
        unit: ``[rows]`` int64, ascending, 0 … count−1.
        count: how many units; one without rows has gradient zero.
        share: what a row's loss is multiplied by before a unit's rows are added: one number, or
            ``[rows]``, float64.

    """

    unit: Tensor
    count: int
    share: float | Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """``[count]`` how many rows each unit has."""
        return torch.bincount(self.unit, minlength=self.count)

    @cached_property
    def longest(self) -> int:
        """The most rows of any unit."""
        sizes: list[int] = self.sizes.tolist()
        return max(sizes, default=0)

    @cached_property
    def is_even(self) -> bool:
        """Whether every unit has as many rows."""
        return self.count * self.longest == self.unit.shape[0]

    @cached_property
    def place(self) -> Tensor:
        """``[rows]`` where each row stands if every unit is given ``longest`` places."""
        sizes = self.sizes
        within = torch.arange(len(self.unit), device=sizes.device)
        within = within - (sizes.cumsum(0) - sizes)[self.unit]
        return self.unit * self.longest + within

    @cached_property
    def apart(self) -> Tensor:
        """``[rows, rows]`` bool: which pairs of rows are of different units."""
        return self.unit.unsqueeze(1) != self.unit

    @classmethod
    def of(cls, unit: Tensor, count: int, combine: Combine) -> Units:
        """Return units whose gradient is the ``sum`` or the ``average`` of their rows'."""
        # NumPy, as it takes half the time on a few numbers.
        counts, rows = np.bincount(unit.cpu().numpy(), minlength=count), unit.shape[0]
        longest: int = max(counts.tolist(), default=0)
        share: float | Tensor = 1.0
        if combine == "average" and rows:
            share = 1 / longest
            if count * longest != rows:
                each = torch.from_numpy(1 / np.maximum(counts, 1))  # no row is of a unit without
                share = each.to(unit.device)[unit]
        units = cls(unit, count, share)
        vars(units)["longest"] = longest  # not to be looked for again
        return units

    def factor(self, like: Tensor) -> Tensor:
        """``[rows]`` what each row's loss is multiplied by, in the type of ``like`` ``[rows]``."""
        if isinstance(self.share, Tensor):
            return self.share.to(like)
        return torch.full_like(like, self.share)

    def of_rows(self, rows: slice | Tensor, unit: Tensor, count: int) -> Units:
        """Return the units of these rows, ``unit`` ``[len(rows)]`` being their new numbers."""
        return Units(
            unit, count, self.share[rows] if isinstance(self.share, Tensor) else self.share
        )

    def picked(self, chosen: Tensor) -> tuple[Tensor, Units]:
        """Return the positions of the rows of the ``chosen`` units (ascending), and these units."""
        number = torch.full((self.count,), -1, device=self.unit.device)
        number[chosen] = torch.arange(len(chosen), device=self.unit.device)
        rows = torch.nonzero(number[self.unit] >= 0).flatten()
        return rows, self.of_rows(rows, number[self.unit[rows]], len(chosen))

    def add(self, rows: Tensor) -> Tensor:
        """Return ``[count, ...]``: the sum of each unit's ``rows`` ``[rows, ...]``."""
        if self.is_even and self.longest:
            return rows.reshape(self.count, self.longest, *rows.shape[1:]).sum(1)
        return rows.new_zeros((self.count, *rows.shape[1:])).index_add(0, self.unit, rows)


class UnitGradients(Protocol):
    """The gradients of one batch's units, never all in memory unless an engine needs them so."""

    @property
    def losses(self) -> Tensor:
        """``[rows]`` losses, detached."""
        ...

    def norms(self) -> Tensor:
        """``[units, groups]`` L2 norm of each unit's gradient in each clip group, float32 or 64."""
        ...

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u for every parameter, given ``[units, groups]`` weights."""
        ...

    def without(self, dropped: Tensor) -> UnitGradients:
        """Return the batch with the ``dropped`` ``[units]`` units zero: norms, activations and
        output gradients, so that no 0·∞ enters a sum.
        """
        ...


class Engine(Protocol):
    """Captures the per-unit gradients of one batch."""

    name: str
    micro_batch: int | Literal["auto"] | None
    memory_gb: float
    autocast: Literal["bfloat16"] | None
    non_finite: Literal["stop", "drop"]

    def capture(
        self, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups,
        units: Units | None,
    ) -> UnitGradients:  # fmt: skip
        """Run the model once on ``inputs`` ``[rows, ...]`` and return its units' gradients.

        ``units`` None: every row is a unit.
        """
        ...


@dataclass(frozen=True)
class NoRows:
    """A draw without rows: norms and sums of zero, to which the step adds its noise."""

    like: Mapping[str, Tensor]
    groups: Groups
    count: int

    @property
    def losses(self) -> Tensor:
        """``[0]`` losses."""
        return next(iter(self.like.values())).new_zeros(0)

    def norms(self) -> Tensor:
        """``[count, groups]`` zeros."""
        return next(iter(self.like.values())).new_zeros(self.count, len(self.groups))

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Zeros in the shape of every parameter."""
        return {name: torch.zeros_like(value) for name, value in self.like.items()}

    def without(self, dropped: Tensor) -> UnitGradients:
        """Nothing to drop."""
        return self


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """Return the detached trainable parameters by name; a tied parameter has its first name."""
    return {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
