"""What one use of a layer contributes to one parameter's gradient, never larger than it need be."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units

CANCELLATION = 1e-3
"""Below this share of the summed terms a float32 norm is computed again in float64."""
ROUNDING = 32 * torch.finfo(torch.float32).eps / 2
"""A float32 ghost norm's square may lack this share of the square of its terms' lengths, which is
added to it: found to be below an eighth of it."""
SUMMED = 4096
"""The most float32 terms of one unit whose rounding a norm makes up for, see ``as_summed``."""
ADDED = 256
"""So many squares are added in float32, more of them in float64: a norm then lacks at most 8e-6 of
itself, u = 2⁻²⁴ times ADDED/2 + 1, which SAFETY makes up for."""
BLOCK = 1 << 22
"""Elements of gradients that are in memory at a time if they are not kept: 16 MiB."""
KEEP = 2
"""A unit's gradient is kept for the weighted sum if it takes at most so many times the memory of
the layer's inputs and output gradients that it replaces."""


class Piece(Protocol):
    """One or more uses of a layer, for one parameter.

    ``units`` None: every row is a unit.
    """

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def size(self) -> int:
        """Number of elements held."""
        ...

    @property
    def parameter_size(self) -> int:
        """Number of elements of the parameter."""
        ...

    def gradient(self, units: Units | None) -> Tensor:
        """Materialise every unit's gradient, ``[units, *shape]``."""
        ...

    def squared_norm(self, units: Units | None) -> Tensor | None:
        """``[units]`` without the gradients themselves; None where they are the better way."""
        ...

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Σ_r w_r·grad_r given ``[rows]`` weights."""
        ...

    def joined(self, other: Piece) -> Piece | None:
        """Return both uses as one, or None if only their gradients can be added."""
        ...

    def bound(self, units: Units | None) -> Tensor | None:
        """``[units]`` upper bounds on the length of the terms that a gradient sums; None if a
        gradient is no sum.
        """
        ...

    def picked(self, rows: slice | Tensor) -> Piece:
        """Return some of the rows."""
        ...

    def double(self) -> Piece:
        """Return the piece in float64."""
        ...

    def without(self, dropped: Tensor) -> Piece:
        """Return the piece with the ``dropped`` ``[rows]`` rows zero."""
        ...


class HoldsBoth:
    """A piece of a layer's input ``a`` and the gradient ``g`` at its output, rows first."""

    a: Tensor
    g: Tensor

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.a.shape[0]

    @property
    def size(self) -> int:
        """Number of elements held."""
        return self.a.numel() + self.g.numel()


@dataclass(frozen=True)
class Rows:
    """Every row's gradient itself, ``[rows, *shape]``: biases, norm layers, the general path."""

    value: Tensor

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.value)

    @property
    def size(self) -> int:
        """Number of elements held."""
        return self.value.numel()

    @property
    def parameter_size(self) -> int:
        """Number of elements of the parameter."""
        return self.value[0].numel()

    def gradient(self, units: Units | None) -> Tensor:
        """Add each unit's rows."""
        return self.value if units is None else units.add(self.value)

    def squared_norm(self, units: Units | None) -> Tensor | None:
        """Return None: the gradients are there to be measured."""
        return None

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """One product of a vector and a matrix."""
        return weighted(self.value, weights)

    def joined(self, other: Piece) -> Piece | None:
        """Add: the gradient is linear in the uses."""
        return Rows(self.value + other.gradient(None).view_as(self.value))

    def bound(self, units: Units | None) -> Tensor | None:
        """Return None: what is released is the sum of these very rows."""
        return None

    def picked(self, rows: slice | Tensor) -> Piece:
        """Index."""
        return Rows(self.value[rows])

    def double(self) -> Piece:
        """Convert."""
        return Rows(self.value.double())

    def without(self, dropped: Tensor) -> Piece:
        """Zero some rows."""
        return Rows(zeroed(self.value, dropped))


def scaled(rows: Tensor, factor: Tensor) -> Tensor:
    """Return ``rows`` ``[rows, ...]``, each multiplied by its ``factor`` ``[rows]``."""
    return rows * factor.to(rows.dtype).view(-1, *(1,) * (rows.dim() - 1))


def zeroed(rows: Tensor, dropped: Tensor) -> Tensor:
    """Return ``rows`` with the ``dropped`` ones zero, whatever stood there."""
    return rows.masked_fill(dropped.view(-1, *(1,) * (rows.dim() - 1)), 0)


def squared_norm(gradient: Tensor) -> Tensor:
    """Return the squared L2 norm ``[units]`` of ``[units, *shape]``."""
    flat = gradient if gradient.dim() == 2 else _laid_out(gradient)[0]
    short = flat.shape[1] // ADDED * ADDED
    if short == 0 or flat.dtype == torch.float64:
        return torch.linalg.vector_norm(flat, dim=1).square()
    # In float32 torch's sum of many squares lacks up to 1e-2 of them (measured, 5e7 numbers).
    pieces = torch.linalg.vector_norm(flat[:, :short].unflatten(1, (-1, ADDED)), dim=2)
    squared = torch.linalg.vector_norm(pieces, dim=1, dtype=torch.float64).square()
    if short < flat.shape[1]:
        rest = torch.linalg.vector_norm(flat[:, short:], dim=1)
        squared += rest.double().square()
    return squared.to(flat.dtype)


def weighted(gradient: Tensor, weights: Tensor) -> Tensor:
    """Return Σ_u w_u·gradient_u for ``[units, *shape]`` and ``[units]``."""
    weights = weights.to(gradient.dtype)
    if gradient.dim() == 2:
        return weights @ gradient
    flat, order = _laid_out(gradient)
    shape = [gradient.shape[1 + d] for d in order]
    back = [order.index(d) for d in range(len(order))]
    return (weights @ flat).view(shape).permute(back)


def _laid_out(gradient: Tensor) -> tuple[Tensor, list[int]]:
    """Return ``[units, elements]`` in the order of memory, without a copy, and that order."""
    strides = gradient.stride()[1:]
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    return gradient.permute(0, *(1 + d for d in order)).reshape(len(gradient), -1), order


def as_summed(squared: Tensor, terms: Tensor) -> Tensor:
    """Return (n + SUMMED·u·L)² for the squares of n and L, the length of all terms.

    n is exact where the terms cancel, and what is released is their float32 sum, which is not: its
    rounding grows with the terms, by at most the unit roundoff u times their number.
    """
    rounding = SUMMED * torch.finfo(torch.float32).eps / 2
    return (squared.sqrt() + rounding * terms.sqrt()).square()


def lengths(rows: Tensor, units: Units | None) -> Tensor:
    """Return the L2 norm ``[units]`` of all that ``rows`` ``[rows, ...]`` hold of a unit."""
    if units is None:
        return torch.linalg.vector_norm(_laid_out(rows)[0], dim=1)
    return units.add(torch.linalg.vector_norm(_laid_out(rows)[0], dim=1).square()).sqrt()


def kept(piece: Piece, units: Units | None) -> bool:
    """Whether gradients are small enough to be kept in the place of what they are made from."""
    number = piece.rows if units is None else units.count
    return number * piece.parameter_size <= KEEP * piece.size
