"""``nn.LSTM``, ``nn.GRU`` and ``nn.RNN``: the recurrence written out, so that every gate is seen.

The weights of a layer act on inputs x_t and on states h_{t−1}: each is a linear map over positions,
whose output gradient is that of the gates before their nonlinearity.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn import functional

from dpsgd.engine.general import Call
from dpsgd.engine.outer import Outer
from dpsgd.engine.pieces import Piece, Rows
from dpsgd.engine.precision import wide
from dpsgd.engine.recorder import OutdatedError, Receive, Recorder
from dpsgd.errors import PrivacyError

Cell: TypeAlias = Callable[[Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""Gates of the input and of the state, and the state, to the next state; its first part is h."""


def fits_recurrence(module: nn.Module, calls: list[Call | None]) -> bool:
    """Whether the module is one of these layers, fed ``[rows, T, width]`` in every call."""
    return (
        type(module) in (nn.LSTM, nn.GRU, nn.RNN)
        and "forward" not in vars(module)
        and bool(getattr(module, "batch_first", False))
        and not getattr(module, "proj_size", 0)
        and all(c is not None and c.inputs[:1] == (0,) and c.outputs[:1] == (0,) for c in calls)
    )


def unrolled_forward(
    name: str, module: nn.RNNBase, names: dict[int, str], recorder: Recorder, receive: Receive
) -> Any:
    """Return the layer's ``forward`` for one pass, which also sends its parameters' pieces."""
    full = {local: names[id(p)] for local, p in module._parameters.items() if id(p) in names}
    cell = _cell(module)
    directions = 2 if module.bidirectional else 1

    def send(weight: str, bias: str, a: Tensor, g: Tensor) -> None:
        a, g = wide(a.detach()), wide(g)
        made: dict[str, Callable[[], Piece]] = {
            weight: lambda: Outer(a, g), bias: lambda: Rows(g.sum(1))
        }  # fmt: skip
        for local, make in made.items():
            if local in full:
                receive(full[local], make())

    def one_way(x: Tensor, start: tuple[Tensor, ...], end: str, backwards: bool) -> Any:
        w_x, w_h = (getattr(module, f"weight_{k}h_{end}") for k in "ih")
        b_x, b_h = (getattr(module, f"bias_{k}h_{end}") if module.bias else None for k in "ih")
        of_input = functional.linear(x, w_x, b_x)
        version, steps = x._version, x.shape[1]

        def unchanged() -> Tensor:
            if x._version != version:
                raise PrivacyError(
                    f"layer {name!r}: its input was changed in place after the forward pass used "
                    "it, so that its norms would be wrong. Write `x = x + y` for `x += y`"
                )
            return x

        if of_input.requires_grad:
            edge = get_gradient_edge(of_input)
            recorder.small.append(
                (edge, lambda g: send(f"weight_ih_{end}", f"bias_ih_{end}", unchanged(), g))
            )
        # Nothing is added to the gates of the state, except that their gradient can be asked for.
        nothing = torch.zeros_like(of_input).requires_grad_()
        state = (start[0].clone(), *start[1:])  # whatever is done to the given one later
        before: list[Tensor] = [start[0]] * steps
        after: list[Tensor] = [start[0]] * steps
        for t in reversed(range(steps)) if backwards else range(steps):
            before[t] = state[0]
            gates = functional.linear(state[0], w_h, b_h) + nothing[:, t]
            state = cell(of_input[:, t], gates, state)
            after[t] = state[0]
        recorder.small.append(
            (nothing, lambda g: send(
                f"weight_hh_{end}", f"bias_hh_{end}", torch.stack(before, 1), g))
        )  # fmt: skip
        return torch.stack(after, 1), state

    def forward(x: Any, hx: Any = None) -> Any:
        if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[0] != recorder.rows:
            raise OutdatedError(f"layer {name!r} is not called with [rows, T, width]")
        recorder.called.add(name)
        for parameter in full.values():
            recorder.uses[parameter] = recorder.uses.get(parameter, 0) + 1
        states = _starts(module, x, hx, directions)
        ends: list[tuple[Tensor, ...]] = []
        for layer in range(module.num_layers):
            ways: list[Tensor] = []
            for way in range(directions):
                end = f"l{layer}" + ("_reverse" if way else "")
                out, last = one_way(x, states[layer * directions + way], end, bool(way))
                ways.append(out)
                ends.append(last)
            x = torch.cat(ways, -1)
            if layer + 1 < module.num_layers:
                x = functional.dropout(x, module.dropout, module.training)
        last = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
        return x, last if isinstance(module, nn.LSTM) else last[0]

    return forward


def _starts(module: nn.RNNBase, x: Tensor, hx: Any, directions: int) -> list[tuple[Tensor, ...]]:
    """Return the first state of every layer and direction: zeros unless given."""
    number = module.num_layers * directions
    parts = 2 if isinstance(module, nn.LSTM) else 1
    if hx is None:
        zeros = x.new_zeros(len(x), module.hidden_size)
        return [(zeros,) * parts] * number
    given = hx if parts == 2 else (hx,)
    return [tuple(part[i] for part in given) for i in range(number)]


def _cell(module: nn.RNNBase) -> Cell:
    if isinstance(module, nn.LSTM):
        return _lstm
    if isinstance(module, nn.GRU):
        return _gru
    act = torch.relu if module.mode == "RNN_RELU" else torch.tanh

    def simple(x: Tensor, h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (act(x + h),)

    return simple


def _lstm(x: Tensor, h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """C' = σ(f)·c + σ(i)·tanh(g), h' = σ(o)·tanh(c') (Hochreiter & Schmidhuber, 1997)."""
    i, f, g, o = (x + h).chunk(4, dim=-1)
    cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru(x: Tensor, h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """N = tanh(x_n + σ(r)·h_n), h' = (1 − σ(z))·n + σ(z)·h (Cho et al., EMNLP 2014)."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, dim=-1), h.chunk(3, dim=-1)
    update = torch.sigmoid(x_z + h_z)
    new = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return ((1 - update) * new + update * state[0],)
