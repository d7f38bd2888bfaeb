"""Norms of outer products by the lengths of their factors, which never come out too small."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

Factors = Sequence[tuple[Tensor, ...]]
"""For every gradient one matrix ``[rows, n]``, or two whose rows' outer products it is."""

SHORT = 256
"""Longer rows are measured in float64: the margin of float32 would be too wide."""
HIGHEST = 1e6
"""Squares of products of lengths up to here do not overflow float32, nor do sums of those."""
LOST = 2.0**-59
"""The length of SHORT numbers whose squares underflow (below 2⁻¹²⁶) is at most this, 2e-18."""
_ROUNDOFF = torch.finfo(torch.float32).eps / 2
_OTHER = 8


def outer_norms(factors: Factors) -> Tensor:
    """Return ``[rows, gradients]``: ‖g‖ of every row of a matrix, ‖g·aᵀ‖ = ‖g‖‖a‖ of two.

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
    lengths: dict[int, Tensor] = {}  # a layer's weight and bias have one g
    widest = 0
    for factor in factors:
        for matrix in factor:
            if id(matrix) not in lengths:
                lengths[id(matrix)] = _length(matrix)
                widest = max(widest, matrix.shape[1])
    norms = _multiplied(factors, lengths)
    if norms.dtype == torch.float64 or not norms.numel():
        return norms
    # Of all together, which is above each, because this very operation was called before.
    if not float(torch.linalg.vector_norm(torch.cat([*lengths.values()], dim=1))) <= HIGHEST:
        exact = {id(matrix): _exact(matrix) for factor in factors for matrix in factor}
        return _multiplied(factors, exact)
    margin = (min(widest, SHORT) + len(factors) / 2 + _OTHER) * _ROUNDOFF
    return torch.add(_added(norms.device), norms, alpha=1 + margin)


def _multiplied(factors: Factors, lengths: dict[int, Tensor]) -> Tensor:
    columns: list[Tensor] = []
    for factor in factors:
        column = lengths[id(factor[0])]
        columns.append(column * lengths[id(factor[1])] if len(factor) > 1 else column)
    return torch.cat(columns, dim=1)


def _length(matrix: Tensor) -> Tensor:
    if matrix.shape[1] <= SHORT:
        return torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
    return _exact(matrix).to(matrix.dtype)


def _exact(matrix: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrix, dim=1, keepdim=True, dtype=torch.float64)


@cache
def _added(device: torch.device) -> Tensor:
    return torch.tensor(LOST * (2 * HIGHEST + 2), device=device)
