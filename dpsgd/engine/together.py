"""Small gradients of many parameters, measured and summed in one go.

On a small model an operation costs more than its arithmetic. A layer's weight and bias need the
same lengths and the same scaled rows, which are computed once; all parameters share the rest.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.lengths import lengths
from dpsgd.engine.pieces import CANCELLATION, Piece, Rows, as_summed, zeroed
from dpsgd.engine.vectors import Vectors

SMALL = 1 << 16
"""A piece with more elements has arithmetic enough to be treated by itself."""
MOST_ROWS = 256
"""Users' norms take products of every row with every other, for which there must not be more."""


def is_small(piece: Piece, dtype: torch.dtype, units: Units | None) -> TypeGuard[Vectors | Rows]:
    """Whether the piece is small, and one vector a row or a pair of them, of this type."""
    if piece.size > SMALL or (units is not None and piece.rows > MOST_ROWS):
        return False
    if isinstance(piece, Vectors):
        return piece.a.dtype == piece.g.dtype == dtype
    return isinstance(piece, Rows) and piece.value.dim() == 2 and piece.value.dtype == dtype


@dataclass(frozen=True)
class Together:
    """One small piece for each of some parameters, all of the same rows and type."""

    pieces: dict[str, Vectors | Rows]
    units: Units | None

    def norms(self) -> tuple[list[str], Tensor]:
        """Return the parameters' names, and their ``[units, parameters]`` norms."""
        if self.units is None:
            return _of_rows(self.pieces)
        return [*self.pieces], _of_units(list(self.pieces.values()), self.units).sqrt_()

    def weighted_sums(self, weights: Tensor, group_of: Sequence[int]) -> dict[str, Tensor]:
        """Σ_r w_rg·grad_r of every parameter, given ``[rows, groups]`` weights and the clip group
        of every parameter.
        """
        columns = [weights] if weights.shape[1] == 1 else weights.split(1, dim=1)
        scaled: dict[tuple[int, int], Tensor] = {}
        found: dict[str, Tensor] = {}
        for (name, piece), group in zip(self.pieces.items(), group_of, strict=True):
            g = piece.g if isinstance(piece, Vectors) else piece.value
            key = id(g), group  # a layer's weight and bias have one g, and mostly one group
            own = scaled.get(key)
            if own is None:
                own = scaled[key] = g * columns[group]
            found[name] = own.T @ piece.a if isinstance(piece, Vectors) else own.sum(0)
        return found

    def without(self, dropped: Tensor) -> Together:
        """Return this with the ``dropped`` ``[units]`` units' rows zero, whatever stood there."""
        rows = dropped if self.units is None else dropped[self.units.unit]
        clean = _once(lambda m: zeroed(m, rows))
        pieces = {name: _changed(piece, clean) for name, piece in self.pieces.items()}
        return Together(pieces, self.units)


def _once(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return ``function``, called once for each tensor: a layer's weight and bias share theirs."""
    found: dict[int, Tensor] = {}

    def once(matrix: Tensor) -> Tensor:
        known = found.get(id(matrix))
        if known is None:
            known = found[id(matrix)] = function(matrix)
        return known

    return once


def _changed(piece: Vectors | Rows, change: Callable[[Tensor], Tensor]) -> Vectors | Rows:
    if isinstance(piece, Vectors):
        return Vectors(change(piece.a), change(piece.g))
    return Rows(change(piece.value))


def _product(piece: Vectors | Rows, of: Callable[[Tensor], Tensor]) -> Tensor:
    return of(piece.a) * of(piece.g) if isinstance(piece, Vectors) else of(piece.value)


def _of_rows(pieces: Mapping[str, Vectors | Rows]) -> tuple[list[str], Tensor]:
    """‖g·aᵀ‖ = ‖g‖‖a‖. The length of a layer's g is also that of its bias: where there is one, it
    stays in the table of lengths when the weight's takes the place of that of a.
    """
    vectors: dict[str, Vectors] = {}
    rows: dict[int, list[tuple[str, Tensor]]] = {}
    for name, piece in pieces.items():
        if isinstance(piece, Vectors):
            vectors[name] = piece
        else:
            rows.setdefault(id(piece.value), []).append((name, piece.value))
    alone: list[str] = []
    beside: list[str] = []
    biases: list[str] = []
    for name, piece in vectors.items():
        same = rows.get(id(piece.g))
        if same:
            biases.append(same.pop()[0])
            beside.append(name)
        else:
            alone.append(name)
    rest = [own for left in rows.values() for own in left]
    weights, count = alone + beside, len(vectors)
    held = [vectors[name] for name in weights]
    table = lengths([*(x.g for x in held), *(x.a for x in held), *(value for _, value in rest)])
    if held:
        table.narrow(1, count, count).mul_(table.narrow(1, 0, count))
    if alone:
        table = table[:, len(alone) :]
    return [*biases, *weights, *(name for name, _ in rest)], table


def _of_units(pieces: Sequence[Vectors | Rows], units: Units) -> Tensor:
    """‖Σ_r g_r·a_rᵀ‖² = Σ_{r,s} (a_r·a_s)(g_r·g_s) over a unit's rows; the terms cancel, so that
    below 1e-3 of (Σ_r ‖a_r‖‖g_r‖)² it is computed in float64, and the rounding of the float32 sum
    added.
    """
    found, terms = _ghosts(pieces, units)
    again = found < CANCELLATION * terms
    if found.dtype == torch.float64 or not bool(again.any()):
        return found
    double = _once(Tensor.double)
    exact, terms = _ghosts([_changed(piece, double) for piece in pieces], units)
    exact = torch.where(exact <= CANCELLATION * terms, as_summed(exact, terms), exact)
    return exact.to(found.dtype)


def _ghosts(pieces: Sequence[Vectors | Rows], units: Units) -> tuple[Tensor, Tensor]:
    """Return ``[units, parameters]`` sums, and the squares of their terms' lengths.

    Rows meet within blocks: a unit each where units are of one length, else all rows in one.
    """
    blocks = units.count if units.is_even else 1

    def products(matrix: Tensor) -> Tensor:
        rows = matrix.reshape(blocks, -1, matrix.shape[1])
        return torch.bmm(rows, rows.mT)

    gram = _once(products)
    both = torch.stack([_product(piece, gram) for piece in pieces])
    lengths = both.diagonal(dim1=2, dim2=3).sqrt()
    if units.is_even:
        found, terms = both.sum((2, 3)).T, lengths.sum(2).T
    else:
        # Masked, not multiplied: a row that is not finite must not reach another unit.
        within = both.masked_fill_(units.apart, 0.0).sum(3)
        found, terms = (units.add(rows.flatten(1).T) for rows in (within, lengths))
    return found.clamp_min_(0.0), terms.square()
