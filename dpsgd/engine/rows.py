"""Batches: a tensor, or any dict, tuple or list of tensors, rows in the first dimension."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils import _pytree as tree  # what torch.func itself flattens by

from dpsgd.errors import ConfigError

Batch: TypeAlias = Any
"""A tensor ``[rows, ...]``, or a dict, tuple or list of such batches."""


def tensors(batch: Batch) -> list[Tensor]:
    """Return the tensors of a batch in a fixed order."""
    return [leaf for leaf in tree.tree_leaves(batch) if isinstance(leaf, Tensor)]


def count(batch: Batch) -> int:
    """Return the number of rows. Raises ConfigError unless all tensors agree on it."""
    if isinstance(batch, Tensor) and batch.dim():
        return batch.shape[0]
    sizes = {len(t) if t.dim() else -1 for t in tensors(batch)}
    if len(sizes) != 1 or -1 in sizes:
        raise ConfigError(
            "inputs", sorted(sizes), "every tensor of a batch needs the same number of rows first"
        )
    return sizes.pop()


def take(batch: Batch, index: Any) -> Batch:
    """Return the rows that ``index`` (a slice or positions) picks from every tensor."""
    return tree_map_rows(lambda t: t[index], batch)


def tree_map_rows(change: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
    """Return the batch with every tensor changed."""

    def changed(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, Tensor) else leaf

    return tree.tree_map(changed, batch)


def as_double(batch: Batch) -> Batch:
    """Return the batch with its floating-point tensors in float64."""

    def double(leaf: Any) -> Any:
        floating = isinstance(leaf, Tensor) and leaf.is_floating_point()
        return leaf.double() if floating else leaf

    return tree.tree_map(double, batch)


def image_layout(batch: Batch) -> Batch:
    """Return ``[rows, channels, height, width]`` tensors with channels last in memory, which
    convolutions and pooling run fastest on; all else as it is.
    """

    def channels_last(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and leaf.dim() == 4 and leaf.is_floating_point():
            return leaf.contiguous(memory_format=torch.channels_last)
        return leaf

    return tree.tree_map(channels_last, batch)
