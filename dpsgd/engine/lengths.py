"""The lengths of many short rows, which never come out too small."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SHORT = 256
"""Longer rows are measured in float64: the margin of float32 would be too wide."""
LOWEST, HIGHEST = 1e-9, 1e9
"""Lengths between, the squares of their products, and sums of those are normal float32 numbers."""
_ROUNDOFF = torch.finfo(torch.float32).eps / 2
_OTHER = 8


def lengths(matrices: Sequence[Tensor]) -> Tensor:
    """Return ``[rows, matrices]``: the L2 norm of every row of ``matrices``, each ``[rows, n]``.

    Formal guarantee, of float32 matrices: neither a length, nor the product of two of these, nor
    the L2 norm in float32 of as many such numbers as there are columns, is below that of the exact
    numbers. Where the result is float32 it holds by a margin: with u = 2⁻²⁴, a sum of n squares is,
    in whatever order it is summed, at least (1 − u)ⁿ of the exact one, unless squares underflow; a
    length, its root, is at least (1 − u)^(n/2 + 1), and the norm of k numbers, each with up to
    three roundings of its own, (1 − u)^(k/2 + 4). Every length is therefore multiplied by
    1 + (n/2 + k/2 + 8)·u, which is also at most what it is too large.

    Squares that underflow are at most n·2⁻¹²⁶ in sum, which is nothing beside ``LOWEST``². If any
    length is below that, above ``HIGHEST`` or not a number, the result is float64, in which squares
    of float32 numbers neither underflow nor overflow: a long g must not meet an a whose squares
    underflowed, for ‖g·aᵀ‖ = ‖g‖‖a‖. So is the result of float64 matrices, as it comes.
    """
    short = [matrix.shape[1] for matrix in matrices if matrix.shape[1] <= SHORT]
    found = torch.stack([_length(matrix) for matrix in matrices], dim=1)
    if found.dtype == torch.float64 or not found.numel():
        return found
    lowest, highest = (float(value) for value in torch.aminmax(found))  # NaN if one is
    if not (lowest >= LOWEST and highest <= HIGHEST):
        return torch.stack([_exact(matrix) for matrix in matrices], dim=1)
    return found.mul_(1 + (max(short, default=0) / 2 + len(matrices) / 2 + _OTHER) * _ROUNDOFF)


def _length(matrix: Tensor) -> Tensor:
    if matrix.shape[1] <= SHORT:
        return torch.linalg.vector_norm(matrix, dim=1)
    return _exact(matrix).to(matrix.dtype)


def _exact(matrix: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrix, dim=1, dtype=torch.float64)
