"""Norms of sums of outer products, of the products of all rows with each other."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.lengths import Factors
from dpsgd.engine.pieces import CANCELLATION, as_summed


def of_units(factors: Factors, units: Units) -> Tensor:
    """Return ``[units, gradients]``: ‖Σ_r g_r·a_rᵀ‖² = Σ_{r,s} (a_r·a_s)(g_r·g_s) over the rows of
    a unit, or ‖Σ_r g_r‖² for a single matrix.

    The terms cancel, so that below 1e-3 of (Σ_r ‖a_r‖‖g_r‖)² it is computed in float64, and the
    rounding of the float32 sum added.
    """
    dtype = factors[0][0].dtype
    if dtype == torch.float64:
        return _summed(factors, units, dtype)[0]
    quick = _quick(factors, units, dtype)
    if quick is not None:
        return quick
    exact, terms = _summed(factors, units, torch.float64)
    return torch.where(exact <= CANCELLATION * terms, as_summed(exact, terms), exact).to(dtype)


def _quick(factors: Factors, units: Units, dtype: torch.dtype) -> Tensor | None:
    """Return what ``of_units`` does, or None if terms cancel."""
    if not units.is_even:
        found, terms = _summed(factors, units, dtype)
        return None if bool((found < CANCELLATION * terms).any()) else found
    # The sum, and how far it is above that share of its terms, by one product.
    both = _products(factors, units, dtype).view(-1, units.longest**2)
    found = (both @ _sum_and_rest(units.longest, dtype, both.device)).view(len(factors), -1, 2)
    return found.select(2, 0).t() if float(found.min()) >= 0 else None  # nor if one is NaN


def _summed(factors: Factors, units: Units, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return ``[units, gradients]`` sums, and the squares of their terms' lengths."""
    both = _products(factors, units, dtype)
    lengths = both.diagonal(dim1=2, dim2=3).sqrt()
    if units.is_even:
        found, terms = both.sum((2, 3)).T, lengths.sum(2).T
    else:
        # Masked, not multiplied: a row that is not finite must not reach another unit.
        within = both.masked_fill_(units.apart, 0.0).sum(3)
        found, terms = (units.add(rows.flatten(1).T) for rows in (within, lengths))
    return found.clamp_min_(0.0), terms.square()


def _products(factors: Factors, units: Units, dtype: torch.dtype) -> Tensor:
    """Return ``[gradients, blocks, rows, rows]``: a block is a unit where units are of one length,
    else all rows are in one.
    """
    blocks = units.count if units.is_even else 1
    known: dict[int, Tensor] = {}  # a layer's weight and bias have one g
    found: list[Tensor] = []
    for factor in factors:
        for matrix in factor:
            if id(matrix) not in known:
                rows = matrix.to(dtype).reshape(blocks, -1, matrix.shape[1])
                known[id(matrix)] = torch.bmm(rows, rows.mT)
        first = known[id(factor[0])]
        found.append(first * known[id(factor[1])] if len(factor) > 1 else first)
    return torch.stack(found)


@lru_cache(maxsize=64)
def _sum_and_rest(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``[rows², 2]``: the sum of a block's products, and that less CANCELLATION times
    rows·Σ_r ‖a_r‖²‖g_r‖², which is at least the square of their terms' lengths.
    """
    own = torch.eye(rows, dtype=dtype, device=device).flatten()
    return torch.stack([torch.ones_like(own), 1 - CANCELLATION * rows * own], dim=1)
