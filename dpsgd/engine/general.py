"""The general path: one module run on every row with parameters of the row's own.

Right for whatever autograd differentiates: parameters become ``[rows, *shape]``, through
``torch.func.vmap``, or row by row where that has no rule for an operation. Memory is rows ×
parameters of that module.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as tree

from dpsgd.errors import PrivacyError


class UnfitError(PrivacyError):
    """A module cannot be run by rows in the way that was tried."""

    def __init__(self, module: str, message: str) -> None:
        self.module = module
        super().__init__(message)


@dataclass(frozen=True)
class Call:
    """Where rows lie in one call of a module: the dimension of each flattened argument and output;
    None where a tensor has none, or where there is no tensor.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


@dataclass(frozen=True)
class General:
    """How one module is run by rows: each call's layout, and whether row after row."""

    calls: tuple[Call, ...]
    row_by_row: bool


def by_row(
    name: str, module: nn.Module, own: dict[str, Tensor], call: Call, row_by_row: bool,
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Return ``module(*args, **kwargs)`` with ``own`` parameters ``[rows, *shape]``.

    Raises UnfitError if the module cannot be run so.
    """
    flat, layout = tree.tree_flatten((args, kwargs))
    if len(flat) != len(call.inputs):
        raise UnfitError(name, f"module {name!r} was called in another way than before")
    split = [(i, d) for i, d in enumerate(call.inputs) if d is not None]
    kinds: list[Any] = []

    def one(parameters: dict[str, Tensor], rows: Sequence[Tensor]) -> tuple[Tensor, ...]:
        values = list(flat)
        for (i, dim), row in zip(split, rows, strict=True):
            values[i] = row.unsqueeze(dim)
        a, k = tree.tree_unflatten(values, layout)
        found, shape = tree.tree_flatten(torch.func.functional_call(module, parameters, a, k))
        kinds[:] = [shape, [None if isinstance(x, Tensor) else x for x in found]]
        if len(found) != len(call.outputs):
            raise UnfitError(name, f"module {name!r} returns another structure than before")
        return tuple(
            x.squeeze(d) for x, d in zip(found, call.outputs, strict=True)
            if isinstance(x, Tensor) and d is not None
        )  # fmt: skip

    values = [flat[i] for i, _ in split]
    dims = [d for d in call.outputs if d is not None]
    try:
        if row_by_row:
            outputs = _loop(one, own, values, [d for _, d in split], dims)
        else:
            with slow_operations_allowed():
                outputs = torch.func.vmap(
                    one, in_dims=(0, [d for _, d in split]), out_dims=tuple(dims),
                    randomness="different",
                )(own, values)  # fmt: skip
    except UnfitError:
        raise
    except Exception as error:  # whatever a model raises when it is run in another way
        raise UnfitError(
            name, f"module {name!r} cannot be run by rows: {type(error).__name__}: {error}"
        ) from error
    shape, constants = kinds
    remaining = iter(outputs)
    whole = [
        c if d is None else next(remaining) for c, d in zip(constants, call.outputs, strict=True)
    ]
    return tree.tree_unflatten(whole, shape)


@contextmanager
def slow_operations_allowed() -> Generator[None]:
    """Let ``torch.func.vmap`` run an operation that it has no rule for row by row, in silence."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        yield


def _loop(
    one: Any, own: dict[str, Tensor], values: list[Tensor], dims: list[int], out_dims: list[int]
) -> tuple[Tensor, ...]:
    number = len(next(iter(own.values())))
    found = [
        one(
            {n: p[r] for n, p in own.items()},
            [v.select(d, r) for v, d in zip(values, dims, strict=True)],
        )
        for r in range(number)
    ]
    return tuple(
        torch.stack(parts, d) for parts, d in zip(zip(*found, strict=True), out_dims, strict=True)
    )
