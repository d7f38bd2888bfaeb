"""Where rows lie in every call of every module: the dimension that grows when the batch does."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as tree

from dpsgd.engine.general import Call
from dpsgd.engine.rows import Batch

Shapes = list[tuple[int, ...] | None]
Unclear = None
"""A call in which rows cannot be told from the shapes."""


def layouts(
    model: nn.Module, names: Iterable[str], fewer: Batch, more: Batch, rows: int
) -> dict[str, list[Call | None]]:
    """Return the calls of the named modules, from a batch of ``rows`` rows and one of a row more.

    None stands for a call whose tensors change with the batch in any other way. A module that is
    not called is left out.
    """
    few, many = _shapes(model, names, fewer), _shapes(model, names, more)
    found: dict[str, list[Call | None]] = {}
    for name, calls in few.items():
        others = many.get(name, [])
        same = len(others) == len(calls)
        found[name] = [
            _call(before, after, rows) if same else Unclear
            for before, after in zip(calls, others, strict=False)
        ] or [Unclear]
    return found


def _call(before: tuple[Shapes, Shapes], after: tuple[Shapes, Shapes], rows: int) -> Call | None:
    dims: list[tuple[int | None, ...]] = []
    for fewer, more in zip(before, after, strict=True):
        if len(fewer) != len(more):
            return Unclear
        own: list[int | None] = []
        for small, large in zip(fewer, more, strict=True):
            if small is None or large is None or len(small) != len(large):
                if small != large:
                    return Unclear
                own.append(None)
                continue
            changed = [d for d, (x, y) in enumerate(zip(small, large, strict=True)) if x != y]
            if any((small[d], large[d]) != (rows, rows + 1) for d in changed) or len(changed) > 1:
                return Unclear
            own.append(changed[0] if changed else None)
        dims.append(tuple(own))
    return Call(dims[0], dims[1])


def _shapes(
    model: nn.Module, names: Iterable[str], batch: Batch
) -> dict[str, list[tuple[Shapes, Shapes]]]:
    found: dict[str, list[tuple[Shapes, Shapes]]] = {}

    def keep(name: str) -> Any:
        def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            found.setdefault(name, []).append((_of((args, kwargs)), _of(output)))

        return hook

    handles = [
        model.get_submodule(name).register_forward_hook(keep(name), with_kwargs=True)
        for name in names
    ]
    try:
        with torch.no_grad():
            model(batch)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _of(values: Any) -> Shapes:
    leaves = tree.tree_leaves(values)
    return [tuple(x.shape) if isinstance(x, Tensor) else None for x in leaves]
