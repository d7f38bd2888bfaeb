"""Norms and weighted sums of a layer's weight and bias from its inputs and output gradients.

For a linear map z_t = W·a_t + b a unit's gradient is Σ_t g_t·a_tᵀ, so that neither its norm nor a
weighted sum over units needs the gradient itself (Goodfellow, arXiv 1510.01799; for sequences and
convolutions Bu et al., arXiv 2205.10683).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from dpsgd.engine.gradients import Units

CANCELLATION = 1e-3
"""Below this share of the summed terms a float32 ghost norm is computed again in float64."""


MOST_PADDING = 4
"""Units are padded to one length as long as that multiplies the rows by no more than this."""


class Layer(Protocol):
    """How one kind of layer turns a captured use into gradients. ``a`` is the layer's input,
    ``g`` the gradient of the summed loss at its output, both ``[units, ...]``.
    """

    def rows(self, module: nn.Module, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Return the use as a linear map: ``[units, T, p]`` and ``[units, T, q]``, W being q×p."""
        ...

    def weight_sum(self, module: nn.Module, a: Tensor, g: Tensor) -> Tensor:
        """Return the weight's gradient of this use, summed over units, for already weighted g."""
        ...

    def bias_rows(self, g: Tensor) -> Tensor:
        """Return each unit's gradient of the bias, ``[units, q]``."""
        ...


class LinearLayer:
    """``nn.Linear`` on inputs ``[units, ..., p]``."""

    def rows(self, module: nn.Module, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Fold every middle dimension into T."""
        return (
            a.reshape(len(a), -1, a.shape[-1]),
            g.reshape(len(g), -1, g.shape[-1]),
        )

    def weight_sum(self, module: nn.Module, a: Tensor, g: Tensor) -> Tensor:
        """One matrix product over units and positions."""
        return g.reshape(-1, g.shape[-1]).T @ a.reshape(-1, a.shape[-1])

    def bias_rows(self, g: Tensor) -> Tensor:
        """Sum over positions."""
        return g.reshape(len(g), -1, g.shape[-1]).sum(1)


class Conv2dLayer:
    """``nn.Conv2d`` with any stride, padding, padding mode, dilation; one group of channels."""

    def rows(self, module: nn.Module, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Unfold the padded input: a position of the output is a row."""
        conv = _conv(module)
        patches = functional.unfold(
            pad_input(conv, a),
            (conv.kernel_size[0], conv.kernel_size[1]),
            dilation=(conv.dilation[0], conv.dilation[1]),
            stride=(conv.stride[0], conv.stride[1]),
        )
        return patches.transpose(1, 2), g.flatten(2).transpose(1, 2)

    def weight_sum(self, module: nn.Module, a: Tensor, g: Tensor) -> Tensor:
        """One call of the native weight gradient of the whole batch."""
        conv = _conv(module)
        gradient: Any = conv2d_weight  # its annotations say int where it takes pairs
        return gradient(
            pad_input(conv, a), list(conv.weight.shape), g,
            stride=(conv.stride[0], conv.stride[1]),
            dilation=(conv.dilation[0], conv.dilation[1]), groups=conv.groups,
        )  # fmt: skip

    def bias_rows(self, g: Tensor) -> Tensor:
        """Sum over positions."""
        return g.flatten(2).sum(2)


def pad_input(conv: nn.Conv2d, a: Tensor) -> Tensor:
    """Return the input as the convolution sees it once its padding, in any mode, is applied."""
    if isinstance(conv.padding, str):
        width: list[int] = []
        for kernel, dilation in zip(conv.kernel_size, conv.dilation, strict=True):
            total = dilation * (kernel - 1) if conv.padding == "same" else 0
            width = [total // 2, total - total // 2, *width]
    else:
        height, across = conv.padding[0], conv.padding[1]
        width = [across, across, height, height]
    if not any(width):
        return a
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    return functional.pad(a, width, mode=mode)


def squared_weight_norm(a: Tensor, g: Tensor) -> Tensor:
    """Return ‖Σ_t g_t·a_tᵀ‖² ``[units]`` for ``[units, T, p]`` and ``[units, T, q]``.

    Chooses the ghost norm Σ_{t,s} (a_t·a_s)(g_t·g_s) where 2T² is less than p·q, else the
    materialised gradient. Terms of the ghost norm cancel; where the sum comes out below 1e-3 of
    (Σ_t ‖a_t‖‖g_t‖)², it is computed in float64, since a norm that is too small breaks the bound.
    """
    positions, p, q = a.shape[1], a.shape[2], g.shape[2]
    if positions == 1:
        return a.square().sum((1, 2)) * g.square().sum((1, 2))
    if 2 * positions * positions >= p * q:
        return torch.bmm(g.transpose(1, 2), a).square().sum((1, 2))
    ghost = _ghost(a, g)
    terms = (a.square().sum(2) * g.square().sum(2)).sqrt().sum(1).square()
    cancelled = torch.nonzero(ghost <= CANCELLATION * terms).flatten()
    if a.dtype != torch.float64 and len(cancelled):
        exact = _ghost(a[cancelled].double(), g[cancelled].double())
        ghost = ghost.index_copy(0, cancelled, exact.to(ghost.dtype))
    return ghost.clamp_min(0.0)


def squared_unit_norm(a: Tensor, g: Tensor, units: Units) -> Tensor:
    """Return the squared norms ``[count]`` of the sums of each unit's rows.

    A unit's rows are one long sequence. They are padded to the longest unit's length unless that
    would multiply the rows by more than ``MOST_PADDING``; then units are taken one by one.
    """
    rows = torch.bincount(units.unit, minlength=units.count)
    longest = int(rows.max())
    if units.count * longest > MOST_PADDING * len(a):
        return _one_by_one(a, g, rows)
    within = torch.arange(len(a), device=a.device) - (rows.cumsum(0) - rows)[units.unit]
    place = units.unit * longest + within
    padded = [
        x.new_zeros((units.count * longest, *x.shape[1:]))
        .index_copy(0, place, x)
        .view(units.count, longest * x.shape[1], x.shape[2])
        for x in (a, g)
    ]
    return squared_weight_norm(padded[0], padded[1])


def _one_by_one(a: Tensor, g: Tensor, rows: Tensor) -> Tensor:
    """Return the squared norms of units given how many consecutive rows each has."""
    sizes = rows.tolist()
    pieces = zip(a.split(sizes), g.split(sizes), strict=True)
    return torch.stack([(y.flatten(0, 1).T @ x.flatten(0, 1)).square().sum() for x, y in pieces])


def _ghost(a: Tensor, g: Tensor) -> Tensor:
    return (torch.bmm(a, a.transpose(1, 2)) * torch.bmm(g, g.transpose(1, 2))).sum((1, 2))


def _conv(module: nn.Module) -> nn.Conv2d:
    if not isinstance(module, nn.Conv2d):
        raise TypeError(f"expected nn.Conv2d, got {type(module).__name__}")
    return module


def fast_layer(module: nn.Module) -> Layer | None:
    """Return the book-keeping of this module, or None if it has no fast path.

    Exact types only: a subclass may do anything in its ``forward``.
    """
    if type(module) is nn.Linear:
        return LinearLayer()
    if type(module) is nn.Conv2d and module.groups == 1:
        return Conv2dLayer()
    return None
