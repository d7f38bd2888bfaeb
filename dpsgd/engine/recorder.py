"""What one recorded forward pass leaves, and the backward pass that collects the gradients."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge, _engine_run_backward

from dpsgd.engine.dense import Dense
from dpsgd.engine.pieces import Piece, Rows
from dpsgd.engine.precision import wide
from dpsgd.errors import PrivacyError

Receive = Callable[[str, Piece], None]
"""Takes one use's piece of the parameter of that name."""


class OutdatedError(PrivacyError):
    """The model does something else than on the rows by which its strategy was chosen."""


SMALL = 1 << 16
"""Gradients of outputs with no more elements are returned together at the end of the backward pass;
larger ones are received, and let go, on the way.
"""


@dataclass
class Recorder:
    """One recorded forward pass of ``rows`` rows.

    Attributes:
        uses: how many pieces each parameter will receive if every use reaches the loss; without
            the parameters of ``dense``.
        dense: small layers whose only use has sent its gradient, in the order of their calls.
        own: parameter name to ``[rows, *shape]`` leaves of the general path.
        small: tensors whose gradient is asked for, and what receives it.
        ends: where the backward pass may stop: large outputs of layers that read no other layer.
        called: names of the fast layers that were called.

    """

    rows: int
    uses: dict[str, int] = field(default_factory=dict)
    dense: list[Dense] = field(default_factory=list)
    own: dict[str, Tensor] = field(default_factory=dict)
    small: list[tuple[GradientEdge | Tensor, Callable[[Tensor], None]]] = field(
        default_factory=list
    )
    ends: list[GradientEdge] = field(default_factory=list)
    called: set[str] = field(default_factory=set)

    def own_of(self, name: str, parameter: Tensor) -> Tensor:
        """Return the parameter once for every row, the same leaf whenever it is asked for."""
        if name not in self.own:
            leaf = parameter.detach().expand(self.rows, *parameter.shape)
            self.own[name] = leaf.requires_grad_()
        return self.own[name]

    def backward(self, losses: Tensor, factor: Tensor, receive: Receive) -> None:
        """Send every use's piece to ``receive``, of the sum of ``losses`` times ``factor``
        ``[rows]``. No parameter's own gradient is computed.
        """
        stops = (*(edge for edge, _ in self.small), *self.own.values(), *self.ends)
        if not losses.requires_grad or not stops:
            return
        # What `torch.autograd.grad` calls: on a small model its own checks of shapes, of which
        # there is nothing to doubt here, take longer than a layer's pass.
        found: Any = _engine_run_backward(
            (losses,), (factor,), False, False, stops, True, accumulate_grad=False
        )
        for (_, caught), gradient in zip(self.small, found, strict=False):
            if gradient is not None:
                caught(gradient)
        for name, gradient in zip(self.own, found[len(self.small) :], strict=False):
            if gradient is not None:
                receive(name, Rows(wide(gradient)))
