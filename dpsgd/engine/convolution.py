"""A convolution's weight, in one, two or three dimensions, transposed or not, with any option.

The gradient of every row's own weight costs about what the whole batch's does: rows become groups
of one native call, or, where the channels of a patch fill cache lines, patches are copied a few
rows at a time and multiplied.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage]  (the base of all kinds)

from dpsgd.engine.gradients import Units
from dpsgd.engine.outer import Outer, ghost
from dpsgd.engine.pieces import BLOCK, HoldsBoth, Piece, lengths, scaled, zeroed

PATCHES = 1 << 17
"""Elements of patches that are copied at a time: half a megabyte, which caches hold."""
WIDE_PATCH = 32
"""A run of so many neighbouring elements is worth copying."""


@dataclass(frozen=True)
class Convolved(HoldsBoth):
    """``a`` ``[rows, channels in, ...]``, padded unless zeros pad it, and ``g``."""

    conv: _ConvNd
    a: Tensor
    g: Tensor
    padding: tuple[int, ...]

    @classmethod
    def of(cls, conv: _ConvNd, a: Tensor, g: Tensor) -> Convolved:
        """Apply the padding that the native weight gradient has no mode for."""
        if conv.padding_mode == "zeros" and not isinstance(conv.padding, str):
            return cls(conv, a, g, tuple(conv.padding))
        return cls(conv, _padded(conv, a), g, (0,) * (a.dim() - 2))

    @property
    def parameter_size(self) -> int:
        """Number of elements of the weight."""
        return self.conv.weight.numel()

    def gradient(self, units: Units | None) -> Tensor:
        """Every unit's weight gradient; rows of a unit are added up on the way where all units have
        as many, else a few rows at a time.
        """
        if units is None or (units.is_even and units.longest):
            return self._gradients(1 if units is None else units.longest)
        total = self.g.new_zeros(units.count, *self.conv.weight.shape)
        step = max(1, BLOCK // self.parameter_size)
        for i in range(0, self.rows, step):
            rows = slice(i, i + step)
            part = Convolved(self.conv, self.a[rows], self.g[rows], self.padding)
            total.index_add_(0, units.unit[rows], part._gradients(1))
        return total

    def squared_norm(self, units: Units | None) -> Tensor | None:
        """Return the ghost norm over patches, where these are few and the weight is large."""
        positions = self.g[0, 0].numel()
        if units is not None or 2 * positions**2 >= self.parameter_size or not self._is_plain():
            return None
        if positions == 1:
            return Outer(self._patches(self._last()), self._g_last()).squared_norm(None)
        return ghost(self._patches(self._last()), self._g_last())

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """One call of the native weight gradient of the whole batch."""
        return self._native(self.a, scaled(self.g, weights), self.conv.weight.shape, 1)

    def joined(self, other: Piece) -> Piece | None:
        """Return None: uses on images of other sizes cannot be put side by side."""
        return None

    def bound(self, units: Units | None) -> Tensor | None:
        """Count a place of the input in as many patches as the kernel has places."""
        repeated = math.prod(self.conv.kernel_size) ** 0.5
        return repeated * lengths(self.a, units) * lengths(self.g, units)

    def picked(self, rows: slice | Tensor) -> Piece:
        """Index."""
        return Convolved(self.conv, self.a[rows], self.g[rows], self.padding)

    def double(self) -> Piece:
        """Convert."""
        return Convolved(self.conv, self.a.double(), self.g.double(), self.padding)

    def without(self, dropped: Tensor) -> Piece:
        """Zero both, so that no 0·∞ enters a product."""
        return Convolved(self.conv, zeroed(self.a, dropped), zeroed(self.g, dropped), self.padding)

    def _native(self, a: Tensor, g: Tensor, shape: tuple[int, ...], times: int) -> Tensor:
        conv = self.conv
        like = a.new_empty(1).expand(shape)  # only its shape is read
        _, found, _ = torch.ops.aten.convolution_backward(
            g, a, like, None, list(conv.stride), list(self.padding), list(conv.dilation),
            conv.transposed, self._output_padding(), conv.groups * times, [False, True, False],
        )  # fmt: skip
        return found

    def _output_padding(self) -> list[int]:
        """Return what a transposed convolution added at the end, by its setting or its caller's."""
        conv = self.conv
        if not conv.transposed:
            return list(conv.output_padding)
        least = [
            (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for n, stride, padding, dilation, kernel in zip(
                self.a.shape[2:], conv.stride, self.padding, conv.dilation, conv.kernel_size,
                strict=True,
            )
        ]  # fmt: skip
        return [n - m for n, m in zip(self.g.shape[2:], least, strict=True)]

    def _gradients(self, each: int) -> Tensor:
        """``[rows / each, *shape]``: the sums over every ``each`` consecutive rows."""
        return self._by_patches(each) if self._has_wide_patches() else self._by_groups(each)

    def _by_groups(self, each: int) -> Tensor:
        """Units as groups of one convolution of as many images as a unit has."""
        n, shape = len(self.a) // each, self.conv.weight.shape
        if not n:
            return self.g.new_zeros(0, *shape)
        a, g = (
            x.reshape(n, each, *x.shape[1:]).transpose(0, 1).reshape(each, -1, *x.shape[2:])
            for x in (self.a, self.g)
        )
        return self._native(a, g, (n * shape[0], *shape[1:]), n).view(n, *shape)

    def _is_plain(self) -> bool:
        return self.a.dim() == 4 and self.conv.groups == 1 and not self.conv.transposed

    def _has_wide_patches(self) -> bool:
        run = self.conv.in_channels * (self.conv.kernel_size[-1] if self._undilated() else 1)
        return self._is_plain() and run >= WIDE_PATCH

    def _undilated(self) -> bool:
        return self.conv.dilation[-1] == 1

    def _by_patches(self, each: int) -> Tensor:
        """Copy patches of a few units at a time; ``[units, q, p]`` products."""
        conv, n = self.conv, len(self.a) // each
        a, g = self._last(), self._g_last()
        a, g = (x.view(n, each, *x.shape[1:]) for x in (a, g))
        out = a.new_empty(n, g.shape[3], self.parameter_size // g.shape[3])
        step = max(1, PATCHES // max(1, g.shape[2] * out.shape[2]))
        for i in range(0, n, step):
            some = slice(i, i + step)
            for j in range(each):
                patches, own = self._patches(a[some, j]), g[some, j].transpose(1, 2)
                torch.baddbmm(out[some], own, patches, beta=min(j, 1), out=out[some])
        height, width = conv.kernel_size
        return out.view(n, -1, height, width, conv.in_channels).permute(0, 1, 4, 2, 3)

    def _last(self) -> Tensor:
        """Return the input with its padding, ``[rows, height, width, channels]``."""
        height, width = self.padding
        a = functional.pad(self.a, (width, width, height, height)) if any(self.padding) else self.a
        return a.permute(0, 2, 3, 1).contiguous()

    def _g_last(self) -> Tensor:
        return self.g.permute(0, 2, 3, 1).reshape(len(self.g), -1, self.g.shape[1])

    def _patches(self, a: Tensor) -> Tensor:
        """``[rows, positions, kernel height · kernel width · channels]``."""
        (h, w), (sh, sw), (dh, dw) = self.conv.kernel_size, self.conv.stride, self.conv.dilation
        rows, down, across, _ = a.stride()
        size = (len(a), *self.g.shape[2:], h, w, a.shape[3])
        stride = (rows, down * sh, across * sw, down * dh, across * dw, 1)
        view = a.as_strided(size, stride, a.storage_offset())
        return view.reshape(len(a), self.g[0, 0].numel(), -1)


def _padded(conv: _ConvNd, a: Tensor) -> Tensor:
    """Return the input as the convolution sees it, padded in whatever mode it has."""
    width: list[int] = []
    for d, (kernel, dilation) in enumerate(zip(conv.kernel_size, conv.dilation, strict=True)):
        if isinstance(conv.padding, str):
            total = dilation * (kernel - 1) if conv.padding == "same" else 0
            width = [total // 2, total - total // 2, *width]
        else:
            width = [conv.padding[d], conv.padding[d], *width]
    if not any(width):
        return a
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    return functional.pad(a, width, mode=mode)
