"""Which module first gives a row another value: for error messages that name it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def first_difference(model: nn.Module, inputs: Tensor, row: int) -> str:
    """Return the name of the first leaf module, in order of execution, whose output for ``row``
    is another when that row is alone; the empty string if no single module shows it.
    """
    among = _outputs(model, inputs, row)
    alone = _outputs(model, inputs[row : row + 1], 0)
    for name, value in among.items():
        other = alone.get(name)
        if other is None or value.shape != other.shape:
            return name
        if not torch.allclose(value, other, rtol=1e-3, atol=1e-5):
            return name
    return ""


def _outputs(model: nn.Module, inputs: Tensor, row: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], object], None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...], output: object) -> None:
            if isinstance(output, Tensor) and output.dim() and len(output) == len(inputs):
                found.setdefault(name, output[row].detach().clone())

        return hook

    leaves = [(n, m) for n, m in model.named_modules() if n and not list(m.children())]
    handles = [module.register_forward_hook(keep(name)) for name, module in leaves]
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
