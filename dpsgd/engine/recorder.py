"""Catch every layer's input and output gradient in one forward and one short backward pass."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd.errors import PrivacyError


@dataclass
class Use:
    """One call of one layer: its input, and after the backward pass its output's gradient."""

    layer: str
    a: Tensor
    version: int
    g: Tensor | None = None

    def values(self) -> tuple[Tensor, Tensor]:
        """Return input and output gradient, in float32 or wider whatever autocast made of them.

        Raises PrivacyError if the input was changed in place.
        """
        if self.a._version != self.version:
            raise PrivacyError(
                f"layer {self.layer!r}: its input was changed in place after the forward pass used "
                "it, so that its norms would be wrong. Write `x = x + y` for `x += y`, and "
                "inplace=False, or use engine=materialised"
            )
        if self.g is None:
            raise PrivacyError(f"layer {self.layer!r}: this call does not reach the loss")
        return wide(self.a), wide(self.g)


def wide(value: Tensor) -> Tensor:
    """Return ``value`` in float32 if its type is narrower: squares of half precision underflow."""
    return value if value.dtype == torch.float64 else value.float()


@dataclass
class Recorder:
    """What was captured: every use of every fast layer, and the outputs of the model."""

    anchor: Tensor
    uses: dict[str, list[Use]] = field(default_factory=dict[str, list[Use]])


class _Tap(torch.autograd.Function):
    """Identity whose backward pass keeps the gradient, and that hangs the graph on the anchor.

    Marking the input as changed in place makes the output the same tensor with a new history: an
    in-place activation after the layer then builds on top of the tap, and the gradient caught is
    the layer's own.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor, use: Use) -> Tensor:
        ctx.use = use
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.use.g = grads[0].detach()
        return grads[0], None, None


@contextmanager
def recording(model: nn.Module, layers: dict[str, nn.Module], rows: int) -> Generator[Recorder]:
    """Catch ``layers`` for one forward pass of ``rows`` rows, no parameter having a gradient.

    Parameters need no gradient of their own: the backward pass stops at the first layers' outputs.
    """
    anchor = torch.zeros((), requires_grad=True, device=next(model.parameters()).device)
    recorder = Recorder(anchor)
    switched = [p for p in model.parameters() if p.requires_grad]
    handles = [
        module.register_forward_hook(_hook(name, recorder, rows)) for name, module in layers.items()
    ]
    for parameter in switched:
        parameter.requires_grad_(False)
    try:
        yield recorder
    finally:
        for handle in handles:
            handle.remove()
        for parameter in switched:
            parameter.requires_grad_(True)


def _hook(name: str, recorder: Recorder, rows: int) -> Any:
    def catch(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        a = args[0].detach()
        if len(a) != rows:
            raise PrivacyError(
                f"layer {name!r} sees {len(a)} rows in a batch of {rows}: whose they are cannot be "
                "known. Keep rows in the first dimension, or use engine=materialised"
            )
        use = Use(name, a, a._version)
        recorder.uses.setdefault(name, []).append(use)
        tapped: Any = _Tap.apply(output, recorder.anchor, use)  # pyright: ignore[reportUnknownMemberType]  (torch leaves it untyped)
        return tapped

    return catch
