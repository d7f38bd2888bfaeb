"""Norms of outer products by the lengths of their factors, which never come out too small."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor

Outer: TypeAlias = Sequence[tuple[Tensor, Tensor]]
"""Two matrices ``[rows, n]`` for each of some layers, whose rows' outer products count."""

SHORT = 256
"""Longer rows are measured in float64: the margin of float32 would be too wide."""
HIGHEST = 1e6
"""Squares of products of lengths up to here do not overflow float32, nor do sums of those."""
LOST = 2.0**-59
"""The length of SHORT numbers whose squares underflow (below 2⁻¹²⁶) is at most this, 2e-18."""
_ROUNDOFF = torch.finfo(torch.float32).eps / 2
_OTHER = 8


def outer_norms(outer: Outer, single: Sequence[Tensor] = ()) -> Tensor:
    """Return ``[rows, 2·layers + matrices]``: ‖g‖ of every pair (g, a) of ``outer``, then
    ‖g·aᵀ‖ = ‖g‖‖a‖ of every pair, then ‖v‖ of every ``single`` ``[rows, n]``.

    Formal guarantee, of float32 matrices: neither one of these norms, nor the L2 norm in float32 of
    all or some of a row, is below that of the exact numbers. For where they are float32, they have
    a margin. With u = 2⁻²⁴, a sum of n squares is, in whatever order they are added, at least
    (1 − u)ⁿ of the exact one without the squares that underflow, so that a length, its root, is at
    least (1 − u)^(n/2 + 1) of the exact one, less LOST. A product of two lengths up to HIGHEST
    then lacks at most (n + 4)·u of itself and LOST·(2·HIGHEST + 1), and the norm of k of them
    another (k/2 + 2)·u. So every norm is multiplied by 1 + (n + k/2 + 8)·u, with the largest n of
    all matrices, and LOST·(2·HIGHEST + 2) is added: 3e-12, which NORM_FLOOR is far above.

    If a length is above HIGHEST or not a number, the result is float64, in which squares of float32
    numbers neither underflow nor overflow: a long g must not meet an a whose squares underflowed.
    So is that of float64 matrices, as it comes.
    """
    matrices = [*[g for g, _ in outer], *[a for _, a in outer], *single]
    widest = max([matrix.shape[1] for matrix in matrices])
    measure = torch.linalg.vector_norm if widest <= SHORT else _length
    lengths = torch.cat([measure(matrix, dim=1, keepdim=True) for matrix in matrices], dim=1)
    if lengths.dtype is torch.float64 or not lengths.shape[0]:
        return _multiplied(lengths, len(outer))
    if not float(lengths.max()) <= HIGHEST:  # nor if one is NaN
        exact = torch.cat([_exact(matrix) for matrix in matrices], dim=1)
        return _multiplied(exact, len(outer))
    margin = (min(widest, SHORT) + len(matrices) / 2 + _OTHER) * _ROUNDOFF
    return torch.add(_added(lengths.device), _multiplied(lengths, len(outer)), alpha=1 + margin)


def _multiplied(lengths: Tensor, pairs: int) -> Tensor:
    """Multiply the second ``pairs`` columns by the first, in place, and return all."""
    if pairs:
        both = lengths if lengths.shape[1] == 2 * pairs else lengths.narrow(1, 0, 2 * pairs)
        first, second = both.chunk(2, dim=1)
        second.mul_(first)
    return lengths


def _length(matrix: Tensor, *, dim: int, keepdim: bool) -> Tensor:
    if matrix.shape[dim] <= SHORT:
        return torch.linalg.vector_norm(matrix, dim=dim, keepdim=keepdim)
    return _exact(matrix).to(matrix.dtype)


def _exact(matrix: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrix, dim=1, keepdim=True, dtype=torch.float64)


@cache
def _added(device: torch.device) -> Tensor:
    return torch.tensor(LOST * (2 * HIGHEST + 2), device=device)
