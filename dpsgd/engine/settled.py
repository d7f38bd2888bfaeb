"""A parameter's gradients once every use is known: squared norms, and what the sum is made of."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.pieces import (
    BLOCK,
    CANCELLATION,
    Piece,
    Rows,
    as_summed,
    kept,
    squared_norm,
    zeroed,
)


@dataclass(frozen=True)
class Settled:
    """Squared norms ``[units]`` and the piece for weighted sums, whose rows are units or rows."""

    squared: Tensor
    piece: Piece
    of_units: bool

    def weighted_sum(self, weights: Tensor, of_rows: Tensor) -> Tensor:
        """Σ_u w_u·grad_u given ``[units]`` weights, and the same ``[rows]``."""
        return self.piece.weighted_sum(weights if self.of_units else of_rows)

    def without(self, dropped: Tensor, units: Units | None) -> Settled:
        """Return this with the ``dropped`` ``[units]`` units' gradients zero."""
        rows = dropped if units is None or self.of_units else dropped[units.unit]
        return Settled(zeroed(self.squared, dropped), self.piece.without(rows), self.of_units)


def settle(pieces: list[Piece], units: Units | None) -> Settled:
    """Add the uses of one parameter, and measure.

    Gradients are kept where they are no larger than what they are made from: the sum is then one
    product, of the very numbers that the norms were taken of.
    """
    piece = pieces[0] if len(pieces) == 1 else reduce(_joined, pieces)
    whole = isinstance(piece, Rows)
    squared = piece.squared_norm(units) if whole or not kept(piece, units) else None
    if squared is not None:
        return Settled(squared, piece, of_units=whole)
    if whole or kept(piece, units):
        gradient, squared = _measured(piece, units)
        return Settled(squared, Rows(gradient), of_units=True)
    blocks = [_measured(*block, kept=False)[1] for block in _blocks(piece, units)]
    return Settled(torch.cat(blocks), piece, of_units=False)


def _measured(piece: Piece, units: Units | None, *, kept: bool = True) -> tuple[Tensor, Tensor]:
    """Return gradients ``[units, *shape]`` and their squared norms, in float64 where terms cancel
    to below 1e-3 of what they are. Where the gradients are not ``kept`` to be summed themselves,
    the rounding of the float32 sum is added to those.
    """
    gradient = piece.gradient(units)
    squared = squared_norm(gradient)
    bound = None if gradient.dtype == torch.float64 else piece.bound(units)
    if bound is None:
        return gradient, squared
    again = torch.nonzero((squared <= (CANCELLATION * bound).square()) & (bound > 0)).flatten()
    if not len(again):
        return gradient, squared
    if units is None:
        exact = piece.picked(again).double().gradient(None)
    else:
        own, chosen = units.picked(again)
        exact = piece.picked(own).double().gradient(chosen)
    gradient = gradient.index_copy(0, again, exact.to(gradient.dtype))
    found = squared_norm(exact)
    if not kept:
        found = as_summed(found, bound[again].to(found).square())
    return gradient, squared.index_copy(0, again, found.to(squared.dtype))


def _joined(first: Piece, second: Piece) -> Piece:
    both = first.joined(second) or second.joined(first)
    if both is not None:
        return both
    return Rows(first.gradient(None) + second.gradient(None))


def _blocks(piece: Piece, units: Units | None) -> Generator[tuple[Piece, Units | None]]:
    """Yield whole units, a few at a time."""
    step = max(1, BLOCK // piece.parameter_size)
    if units is None:
        for start in range(0, piece.rows, step):
            yield piece.picked(slice(start, start + step)), None
        return
    ends = torch.bincount(units.unit, minlength=units.count).cumsum(0).tolist()
    for start in range(0, units.count, step):
        stop = min(start + step, units.count)
        rows = slice(ends[start - 1] if start else 0, ends[stop - 1])
        yield piece.picked(rows), units.of_rows(rows, units.unit[rows] - start, stop - start)
