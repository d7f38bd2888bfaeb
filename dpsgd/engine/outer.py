"""A linear map's weight: a unit's gradient is Σ_t g_t·a_tᵀ, which need not be formed to be measured
(Goodfellow, arXiv 1510.01799; for sequences Bu et al., arXiv 2205.10683).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.lengths import HIGHEST
from dpsgd.engine.pieces import (
    CANCELLATION,
    ROUNDING,
    HoldsBoth,
    Piece,
    as_summed,
    lengths,
    scaled,
    zeroed,
)

MOST_PADDING = 4
"""Units are padded to one length as long as that multiplies the rows by no more than this."""


@dataclass(frozen=True)
class Outer(HoldsBoth):
    """``a`` ``[rows, T, p]`` and ``g`` ``[rows, T, q]``: inputs and output gradients of W, q×p."""

    a: Tensor
    g: Tensor

    @property
    def parameter_size(self) -> int:
        """p·q."""
        return self.a.shape[2] * self.g.shape[2]

    def gradient(self, units: Units | None) -> Tensor:
        """One matrix product a unit."""
        if units is None:
            return products(self.a, self.g)
        padded = sequences(units, self.a, self.g)
        return _one_by_one(self.a, self.g, units) if padded is None else products(*padded)

    def squared_norm(self, units: Units | None) -> Tensor | None:
        """Return the ghost norm Σ_{t,s} (a_t·a_s)(g_t·g_s) where it takes less than gradients."""
        a, g = self.a, self.g
        if units is not None:
            padded = sequences(units, a, g)
            if padded is None:
                return None
            a, g = padded
        positions, p, q = a.shape[1], a.shape[2], g.shape[2]
        if positions == 1:
            # In float64: a long g must not meet an a whose squares underflowed.
            long, wide = (torch.linalg.vector_norm(x, dim=2, dtype=torch.float64) for x in (a, g))
            return (long * wide).square().flatten()
        if positions * (p + q) >= p * q or 2 * positions**2 >= p * q:
            return None
        return ghost(a, g)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """One matrix product over rows and positions."""
        if self.a.shape[1] == 1:
            return scaled(self.g[:, 0], weights).T @ self.a[:, 0]
        return scaled(self.g, weights).flatten(0, 1).T @ self.a.flatten(0, 1)

    def joined(self, other: Piece) -> Piece | None:
        """Another use is more positions."""
        if not isinstance(other, Outer):
            return None
        return Outer(torch.cat([self.a, other.a], dim=1), torch.cat([self.g, other.g], dim=1))

    def bound(self, units: Units | None) -> Tensor | None:
        """By Cauchy and Schwarz Σ_t ‖a_t‖‖g_t‖ ≤ ‖a‖‖g‖."""
        return lengths(self.a, units) * lengths(self.g, units)

    def picked(self, rows: slice | Tensor) -> Piece:
        """Index."""
        return Outer(self.a[rows], self.g[rows])

    def double(self) -> Piece:
        """Convert."""
        return Outer(self.a.double(), self.g.double())

    def without(self, dropped: Tensor) -> Piece:
        """Zero both, so that no 0·∞ enters a product."""
        return Outer(zeroed(self.a, dropped), zeroed(self.g, dropped))


def products(a: Tensor, g: Tensor) -> Tensor:
    """Return Σ_t g_t·a_tᵀ ``[units, q, p]``."""
    return torch.bmm(g.transpose(1, 2), a)


def ghost(a: Tensor, g: Tensor) -> Tensor:
    """Return Σ_{t,s} (a_t·a_s)(g_t·g_s) ``[units]``; its terms cancel, so that below 1e-3 of
    (Σ_t ‖a_t‖‖g_t‖)² it is computed in float64, and the rounding of the float32 sum added. So are
    all if a position is longer than HIGHEST, whose partner's squares may have underflowed. To the
    others the rounding of the products is added.
    """
    own, other = torch.bmm(a, a.transpose(1, 2)), torch.bmm(g, g.transpose(1, 2))
    if a.dtype == torch.float64:
        return _added(own.mul_(other))[0].clamp_min(0.0)
    if not own.numel():
        return own.sum((1, 2))
    if not float(torch.maximum(own.max(), other.max())) <= HIGHEST**2:
        return _exact(a, g).to(a.dtype)
    found, terms = _added(own.mul_(other))
    again = torch.nonzero((found <= CANCELLATION * terms) & (terms > 0)).flatten()
    found = found.add(terms, alpha=ROUNDING)
    if len(again):
        found = found.index_copy(0, again, _exact(a[again], g[again]).to(found.dtype))
    return found.clamp_min(0.0)


def _exact(a: Tensor, g: Tensor) -> Tensor:
    a, g = a.double(), g.double()
    exact, whole = _added(torch.bmm(a, a.transpose(1, 2)).mul_(torch.bmm(g, g.transpose(1, 2))))
    return as_summed(exact.clamp_min(0.0), whole)


def sequences(units: Units, *values: Tensor) -> list[Tensor] | None:
    """Return each ``[rows, T, ...]`` as ``[count, longest·T, ...]``: a unit's rows are one long
    sequence, padded with zeros; None if that would multiply the rows by over ``MOST_PADDING``.
    """
    longest = units.longest
    if units.count * longest > MOST_PADDING * len(units.unit):
        return None
    if units.is_even:
        return [x.reshape(units.count, longest * x.shape[1], *x.shape[2:]) for x in values]
    return [
        x.new_zeros((units.count * longest, *x.shape[1:]))
        .index_copy(0, units.place, x)
        .view(units.count, longest * x.shape[1], *x.shape[2:])
        for x in values
    ]


def _added(both: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of products ``[units, T, T]``, and the square of its terms' lengths, which the
    diagonals hold.
    """
    terms = both.diagonal(dim1=1, dim2=2).clamp_min(0.0).sqrt().sum(1).square()
    return both.sum((1, 2)), terms


def _one_by_one(a: Tensor, g: Tensor, units: Units) -> Tensor:
    sizes = torch.bincount(units.unit, minlength=units.count).tolist()
    pieces = zip(a.split(sizes), g.split(sizes), strict=True)
    return torch.stack([y.flatten(0, 1).T @ x.flatten(0, 1) for x, y in pieces])
