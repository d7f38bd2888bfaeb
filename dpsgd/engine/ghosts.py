"""Norms of sums of outer products, of the products of all rows with each other."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.lengths import HIGHEST, Outer
from dpsgd.engine.pieces import CANCELLATION, ROUNDING, as_summed


def of_units(outer: Outer, single: Sequence[Tensor], units: Units) -> Tensor:
    """Return ``[units, 2·layers + matrices]``, over the rows of a unit: ‖Σ_r g_r‖² of every pair
    (g, a) of ``outer``, then ‖Σ_r g_r·a_rᵀ‖² = Σ_{r,s} (a_r·a_s)(g_r·g_s) of every pair, then
    ‖Σ_r v_r‖² of every ``single`` ``[rows, n]``.

    The terms cancel, so that below 1e-3 of (Σ_r ‖a_r‖‖g_r‖)² it is computed in float64, and the
    rounding of the float32 sum added; likewise where a row is longer than HIGHEST, whose partner's
    squares may have underflowed. Otherwise the rounding of the products is added.
    """
    matrices = [*[g for g, _ in outer], *[a for _, a in outer], *single]
    pairs, dtype = len(outer), matrices[0].dtype
    if dtype == torch.float64:
        return _summed(matrices, pairs, units, dtype)[0]
    quick = _quick(matrices, pairs, units, dtype)
    if quick is not None:
        return quick
    exact, terms = _summed(matrices, pairs, units, torch.float64)
    return torch.where(exact <= CANCELLATION * terms, as_summed(exact, terms), exact).to(dtype)


def _quick(
    matrices: Sequence[Tensor], pairs: int, units: Units, dtype: torch.dtype
) -> Tensor | None:
    """Return what ``of_units`` does, or None if terms cancel or a row is too long."""
    both = _products(matrices, units, dtype)
    # The largest products are those of rows with themselves.
    if not float(both.max()) <= HIGHEST**2:
        return None
    both = _multiplied(both, pairs)
    if not units.is_even:
        found, terms = _added(both, units)
        found = found.add_(terms, alpha=ROUNDING)
        return None if bool((found < CANCELLATION * terms).any()) else found
    # The sum, and how far it is above that share of its terms, by one product.
    both = both.view(-1, units.longest**2)
    found = torch.mm(both, _sum_and_rest(units.longest, dtype, both.device))
    if not float(found.min()) >= 0:  # nor if one is NaN
        return None
    return found.select(1, 0).view(len(matrices), -1).t()


def _summed(
    matrices: Sequence[Tensor], pairs: int, units: Units, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    return _added(_multiplied(_products(matrices, units, dtype), pairs), units)


def _added(both: Tensor, units: Units) -> tuple[Tensor, Tensor]:
    """Return ``[units, gradients]`` sums, and the squares of their terms' lengths."""
    lengths = both.diagonal(dim1=2, dim2=3).sqrt()
    if units.is_even:
        found, terms = both.sum((2, 3)).T, lengths.sum(2).T
    else:
        # Masked, not multiplied: a row that is not finite must not reach another unit.
        within = both.masked_fill_(units.apart, 0.0).sum(3)
        found, terms = (units.add(rows.flatten(1).T) for rows in (within, lengths))
    return found.clamp_min_(0.0), terms.square()


def _products(matrices: Sequence[Tensor], units: Units, dtype: torch.dtype) -> Tensor:
    """Return ``[matrices, blocks, rows, rows]``: a block is a unit where units are of one length,
    else all rows are in one.
    """
    blocks, longest = (units.count, units.longest) if units.is_even else (1, len(units.unit))
    if matrices[0].dtype is not dtype:
        matrices = [matrix.to(dtype) for matrix in matrices]
    split = [matrix.reshape(blocks, longest, -1) for matrix in matrices]
    return torch.stack([torch.bmm(one, one.transpose(1, 2)) for one in split])


def _multiplied(products: Tensor, pairs: int) -> Tensor:
    """Multiply the second ``pairs`` by the first, in place, and return all."""
    if pairs:
        both = products if len(products) == 2 * pairs else products.narrow(0, 0, 2 * pairs)
        first, second = both.chunk(2)
        second.mul_(first)
    return products


@lru_cache(maxsize=64)
def _sum_and_rest(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``[rows², 2]``, with L² = rows·Σ_r ‖a_r‖²‖g_r‖², which is at least the square of the
    terms' lengths: the sum of a block's products and their rounding, ROUNDING·L², and the sum less
    CANCELLATION·L².
    """
    own = torch.eye(rows, dtype=dtype, device=device).flatten()
    rounding = ROUNDING * rows
    return torch.stack([1 + rounding * own, 1 - CANCELLATION * rows * own], dim=1)
