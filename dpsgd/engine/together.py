"""Small gradients of many parameters, measured and summed in one go.

On a small model an operation costs more than its arithmetic. A layer's weight and bias need the
same lengths and the same scaled rows, which are computed once; all parameters share the rest.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from dpsgd.engine.ghosts import of_units
from dpsgd.engine.gradients import Units
from dpsgd.engine.lengths import outer_norms
from dpsgd.engine.pieces import Piece, Rows, zeroed
from dpsgd.engine.vectors import Vectors

SMALL = 1 << 16
"""A piece with more elements has arithmetic enough to be treated by itself."""
MOST_ROWS = 256
"""Users' norms take products of every row with every other, for which there must not be more."""


def is_small(piece: Piece, dtype: torch.dtype, units: Units | None) -> TypeGuard[Vectors | Rows]:
    """Whether the piece is small, and one vector a row or a pair of them, of this type."""
    if isinstance(piece, Vectors):
        fits = piece.a.dtype == piece.g.dtype == dtype
    else:
        fits = isinstance(piece, Rows) and piece.value.dim() == 2 and piece.value.dtype == dtype
    return fits and piece.size <= SMALL and (units is None or piece.rows <= MOST_ROWS)


@dataclass(frozen=True)
class Together:
    """One small piece for each of some parameters, all of the same rows and type."""

    pieces: dict[str, Vectors | Rows]
    units: Units | None

    def norms(self) -> tuple[list[str], Tensor]:
        """Return the parameters' names, and their ``[units, parameters]`` norms."""
        factors = [_factors(piece) for piece in self.pieces.values()]
        if self.units is None:
            return [*self.pieces], outer_norms(factors)
        return [*self.pieces], of_units(factors, self.units).sqrt()

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
            found[name] = torch.mm(own.t(), piece.a) if isinstance(piece, Vectors) else own.sum(0)
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


def _factors(piece: Vectors | Rows) -> tuple[Tensor, ...]:
    return (piece.g, piece.a) if isinstance(piece, Vectors) else (piece.value,)
