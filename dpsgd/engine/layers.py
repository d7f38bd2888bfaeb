"""The layers whose parameters have a fast path: from input and output gradient to pieces.

A layer is taken by its exact type: a subclass may do anything in its ``forward``.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.nn import functional

from dpsgd.engine.convolution import Convolved
from dpsgd.engine.lookup import Lookup
from dpsgd.engine.outer import Outer
from dpsgd.engine.pieces import Piece, Rows
from dpsgd.engine.vectors import Vectors

Layer: TypeAlias = Callable[[Any, Tensor, Tensor, frozenset[str]], dict[str, Piece]]
"""Module, input ``[rows, ...]``, gradient of the summed loss at the output ``[rows, ...]`` and the
names of the parameters that are wanted, to one piece for each of these."""


def linear(module: nn.Linear, a: Tensor, g: Tensor, wanted: frozenset[str]) -> dict[str, Piece]:
    """``nn.Linear`` on inputs of any rank: every middle dimension is a position."""
    if a.dim() == 2:
        return _with_bias(Vectors(a, g), g, wanted)
    a = a.reshape(a.shape[0], -1, a.shape[-1])
    g = g.reshape(g.shape[0], -1, g.shape[-1])
    return _with_bias(Outer(a, g), g.sum(1) if "bias" in wanted else g, wanted)


def convolution(module: Any, a: Tensor, g: Tensor, wanted: frozenset[str]) -> dict[str, Piece]:
    """``nn.Conv1d/2d/3d`` and ``nn.ConvTranspose1d/2d/3d``."""
    over = tuple(range(2, g.dim()))
    return _with_bias(Convolved.of(module, a, g), g.sum(over) if "bias" in wanted else g, wanted)


def embedding(
    module: nn.Embedding, ids: Tensor, g: Tensor, wanted: frozenset[str]
) -> dict[str, Piece]:
    """``nn.Embedding`` on ids of any rank; the padding id has no gradient."""
    ids, g = ids.reshape(len(ids), -1), g.reshape(len(g), -1, g.shape[-1])
    if module.padding_idx is not None:
        g = g * (ids != module.padding_idx).unsqueeze(-1)
    return {"weight": Lookup(ids, g, module.num_embeddings)}


def layer_norm(
    module: nn.LayerNorm, a: Tensor, g: Tensor, wanted: frozenset[str]
) -> dict[str, Piece]:
    """``nn.LayerNorm`` over any number of dimensions."""
    normal = functional.layer_norm(a, module.normalized_shape, eps=module.eps)
    return _scale_and_shift(normal, g, wanted, tuple(module.normalized_shape))


def rms_norm(module: nn.RMSNorm, a: Tensor, g: Tensor, wanted: frozenset[str]) -> dict[str, Piece]:
    """``nn.RMSNorm`` over any number of dimensions."""
    shape = module.normalized_shape
    normal = functional.rms_norm(a, list(shape), eps=module.eps)
    return _scale_and_shift(normal, g, wanted, tuple(shape))


def group_norm(
    module: nn.GroupNorm, a: Tensor, g: Tensor, wanted: frozenset[str]
) -> dict[str, Piece]:
    """``nn.GroupNorm``; channels are the second dimension."""
    normal = functional.group_norm(a, module.num_groups, eps=module.eps)
    return _per_channel(normal, g, wanted)


def instance_norm(
    module: nn.InstanceNorm1d, a: Tensor, g: Tensor, wanted: frozenset[str]
) -> dict[str, Piece]:
    """``nn.InstanceNorm1d/2d/3d`` that normalises a row by itself."""
    return _per_channel(functional.instance_norm(a, eps=module.eps), g, wanted)


FAST: dict[type[nn.Module], Layer] = {
    nn.Linear: linear,
    nn.Conv1d: convolution, nn.Conv2d: convolution, nn.Conv3d: convolution,
    nn.ConvTranspose1d: convolution, nn.ConvTranspose2d: convolution,
    nn.ConvTranspose3d: convolution,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm, nn.RMSNorm: rms_norm, nn.GroupNorm: group_norm,
    nn.InstanceNorm1d: instance_norm, nn.InstanceNorm2d: instance_norm,
    nn.InstanceNorm3d: instance_norm,
}  # fmt: skip


def fast_layer(module: nn.Module) -> Layer | None:
    """Return the layer's fast path, or None; an instance may have a ``forward`` of its own too."""
    return None if "forward" in vars(module) else FAST.get(type(module))


def _with_bias(weight: Piece, bias: Tensor, wanted: frozenset[str]) -> dict[str, Piece]:
    pieces: dict[str, Piece] = {}
    if "weight" in wanted:
        pieces["weight"] = weight
    if "bias" in wanted:
        pieces["bias"] = Rows(bias)
    return pieces


def _scale_and_shift(
    normal: Tensor, g: Tensor, wanted: frozenset[str], shape: tuple[int, ...]
) -> dict[str, Piece]:
    def added(x: Tensor) -> Piece:
        return Rows(x.reshape(len(x), -1, *shape).sum(1))

    makes = {"weight": lambda: added(g * normal), "bias": lambda: added(g)}
    return {name: make() for name, make in makes.items() if name in wanted}


def _per_channel(normal: Tensor, g: Tensor, wanted: frozenset[str]) -> dict[str, Piece]:
    def added(x: Tensor) -> Piece:
        return Rows(x.sum(tuple(range(2, x.dim()))) if x.dim() > 2 else x)

    makes = {"weight": lambda: added(g * normal), "bias": lambda: added(g)}
    return {name: make() for name, make in makes.items() if name in wanted}
