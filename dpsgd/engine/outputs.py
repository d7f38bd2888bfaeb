"""Which module first gives a row another value: for error messages that name it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpsgd.engine.rows import Batch, count, take, tensors


def first_difference(model: nn.Module, inputs: Batch, row: int) -> str:
    """Return the name of the first module, in order of execution, whose output for ``row`` is
    another when that row is alone; the empty string if no single module shows it. Looked at are
    leaves, and modules with parameters of their own.
    """
    among = _outputs(model, inputs, row)
    alone = _outputs(model, take(inputs, slice(row, row + 1)), 0)
    for name, value in among.items():
        other = alone.get(name)
        if other is None or value.shape != other.shape:
            return name
        if not torch.allclose(value, other, rtol=1e-3, atol=1e-5):
            return name
    return ""


def _outputs(model: nn.Module, inputs: Batch, row: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], object], None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...], output: object) -> None:
            for value in tensors(output):
                if value.dim() and len(value) == count(inputs):
                    found.setdefault(name, value[row].detach().clone())

        return hook

    # What has parameters of its own may use its children's without calling them.
    leaves = [
        (n, m) for n, m in model.named_modules()
        if n and (not list(m.children()) or list(m.parameters(recurse=False)))
    ]  # fmt: skip
    handles = [module.register_forward_hook(keep(name)) for name, module in leaves]
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
