"""A linear map's weight where every row is one vector."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.outer import Outer
from dpsgd.engine.pieces import HoldsBoth, Piece, scaled, zeroed


@dataclass(frozen=True)
class Vectors(HoldsBoth):
    """``Outer`` with one position: ``a`` ``[rows, p]`` and ``g`` ``[rows, q]``.

    ‖g·aᵀ‖ = ‖g‖‖a‖, and no gradient is ever formed (Goodfellow, arXiv 1510.01799).
    """

    a: Tensor
    g: Tensor

    @property
    def parameter_size(self) -> int:
        """p·q."""
        return self.a.shape[1] * self.g.shape[1]

    def gradient(self, units: Units | None) -> Tensor:
        """Materialise, as a sequence of one."""
        return self.as_outer().gradient(units)

    def squared_norm(self, units: Units | None) -> Tensor | None:
        """‖g‖²‖a‖², or that of a unit's rows as one sequence."""
        if units is None:
            # In float64: a long g must not meet an a whose squares underflowed.
            a, g = (
                torch.linalg.vector_norm(x, dim=1, dtype=torch.float64) for x in (self.a, self.g)
            )
            return (a * g).square()
        return self.as_outer().squared_norm(units)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """One matrix product over rows."""
        return scaled(self.g, weights).T @ self.a

    def joined(self, other: Piece) -> Piece | None:
        """Another use is another position."""
        return self.as_outer().joined(other.as_outer() if isinstance(other, Vectors) else other)

    def bound(self, units: Units | None) -> Tensor | None:
        """By Cauchy and Schwarz, over a unit's rows."""
        return self.as_outer().bound(units)

    def picked(self, rows: slice | Tensor) -> Piece:
        """Index."""
        return Vectors(self.a[rows], self.g[rows])

    def double(self) -> Piece:
        """Convert."""
        return Vectors(self.a.double(), self.g.double())

    def without(self, dropped: Tensor) -> Piece:
        """Zero all, so that no 0·∞ enters a product."""
        return Vectors(zeroed(self.a, dropped), zeroed(self.g, dropped))

    def as_outer(self) -> Outer:
        """Return the same as sequences of one."""
        return Outer(self.a.unsqueeze(1), self.g.unsqueeze(1))
