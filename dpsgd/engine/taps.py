"""A fast layer's ``forward`` that keeps its input and the gradient at its output."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from dpsgd.engine.dense import Dense
from dpsgd.engine.general import UnfitError
from dpsgd.engine.layers import Layer, fast_layer
from dpsgd.engine.precision import wide
from dpsgd.engine.recorder import SMALL, OutdatedError, Receive, Recorder
from dpsgd.engine.strategy import SHARED, Place, Strategy, for_every_row
from dpsgd.errors import PrivacyError

Forward: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Tap:
    """A fast layer of a model, and what does not change from pass to pass.

    Attributes:
        name: the layer's.
        module: the layer, referred to weakly so that no model is kept alive.
        calls: the place of rows in each of its calls.
        full: its trainable parameters' names in the model by their names in the layer.
        dense: whether it is linear, called once, and shares no parameter with anything else.

    """

    name: str
    module: ReferenceType[nn.Module]
    calls: tuple[Place, ...]
    full: dict[str, str]
    wanted: frozenset[str]
    dense: bool


def _tap(model: nn.Module, name: str, strategy: Strategy, names: dict[int, str]) -> Tap:
    module, calls = model.get_submodule(name), strategy.fast[name]
    full = {n: names[id(p)] for n, p in module._parameters.items() if id(p) in names}
    own = {id(p) for p in module._parameters.values()}
    others = (m for m in model.modules() if m is not module)
    alone = not any(id(p) in own for m in others for p in m._parameters.values() if p is not None)
    dense = type(module) is nn.Linear and calls == (0,) and "weight" in full and alone
    return Tap(name, ref(module), calls, full, frozenset(full), dense)


_taps: WeakKeyDictionary[nn.Module, tuple[Strategy, dict[int, str], list[Tap]]] = (
    WeakKeyDictionary()
)


def taps_of(model: nn.Module, strategy: Strategy, names: dict[int, str]) -> list[Tap]:
    """Return the taps of all fast layers, the same ones for the same strategy and names."""
    known = _taps.get(model)
    if known is not None and known[0] is strategy and known[1] is names:
        return known[2]
    taps = [_tap(model, name, strategy, names) for name in strategy.fast]
    _taps[model] = strategy, names, taps
    return taps


def tapped_forward(tap: Tap, module: nn.Module, recorder: Recorder, receive: Receive) -> Any:
    """Return the layer's ``forward`` for one pass, which also sends its parameters' pieces."""
    layer, forward = fast_layer(module), module.forward
    if layer is None:
        raise OutdatedError(f"layer {tap.name!r} has no fast path")
    general = partial(_tapped, tap, module, forward, layer, recorder, receive)
    if tap.dense and recorder.rows * sum(cast(Tensor, module.weight).shape) <= SMALL:
        return _tapped_dense(tap, forward, recorder, general)
    return general()


def _tapped(
    tap: Tap, module: nn.Module, forward: Forward, layer: Layer, recorder: Recorder,
    receive: Receive,
) -> Forward:  # fmt: skip
    name, full, wanted, rows = tap.name, tap.full, tap.wanted, recorder.rows
    places = iter(tap.calls)

    def tapped(*args: Any, **kwargs: Any) -> Tensor:
        output = forward(*args, **kwargs)
        place = next(places, None)
        if place is None:
            raise _again(name)
        recorder.called.add(name)
        if not output.requires_grad:
            return output
        given = args[0] if args else next(iter(kwargs.values()))
        a = given.detach()
        if place in SHARED:
            output, a = (for_every_row(x, place, rows) for x in (output, a))
        elif a.shape[place] != rows:
            raise OutdatedError(
                f"layer {name!r} sees {a.shape[place]} rows in a batch of {rows}: whose they are "
                "cannot be known"
            )
        for parameter in full.values():
            recorder.uses[parameter] = recorder.uses.get(parameter, 0) + 1
        held = [(a, a._version)]

        def caught(g: Tensor) -> None:
            x, g = _input_of(name, held), wide(g)
            if place and place not in SHARED:
                x, g = x.movedim(place, 0), g.movedim(place, 0)
            try:
                pieces = layer(module, x, g, wanted)
            except (RuntimeError, IndexError) as error:
                raise UnfitError(name, f"layer {name!r}: {error}") from error
            for local, piece in pieces.items():
                receive(full[local], piece)

        # The gradient is that at this value, whatever is done to the tensor in place later.
        if output.numel() <= SMALL:
            recorder.small.append((_edge(output), caught))
        else:
            output.register_hook(caught)
            if not given.requires_grad:
                recorder.ends.append(_edge(output))
        return output

    return tapped


def _tapped_dense(
    tap: Tap, forward: Forward, recorder: Recorder, general: Callable[[], Forward]
) -> Forward:
    """Return the ``forward`` of a small linear layer, which leaves one :class:`Dense` if its rows
    are vectors, and else what the ``general`` one leaves.
    """
    name, rows, dense = tap.name, recorder.rows, recorder.dense
    weight, bias = tap.full["weight"], tap.full.get("bias")

    def tapped(input: Tensor) -> Tensor:  # noqa: A002  (what torch calls it)
        if name in recorder.called:
            raise _again(name)
        if input.dim() != 2 or input.shape[0] != rows:
            return general()(input)
        output = forward(input)
        recorder.called.add(name)
        if not output.requires_grad:
            return output
        a = input.detach()
        held = [(a, a._version)]

        def caught(g: Tensor) -> None:
            dense.append(Dense(weight, bias, _input_of(name, held), wide(g)))

        recorder.small.append((_edge(output), caught))
        return output

    return tapped


def _again(name: str) -> OutdatedError:
    return OutdatedError(f"layer {name!r} is called more often than on other rows")


def _input_of(name: str, held: list[tuple[Tensor, int]]) -> Tensor:
    """Return a layer's input once, letting go with it of what the layer kept; it is the one that
    the layer read.
    """
    if not held:
        raise UnfitError(name, f"layer {name!r}: its output is differentiated twice")
    x, version = held.pop()
    if x._version != version:
        raise PrivacyError(
            f"layer {name!r}: its input was changed in place after the forward pass used it, so "
            "that its norms would be wrong. Write `x = x + y` for `x += y`, and inplace=False, or "
            "use engine=materialised"
        )
    return wide(x) if x.is_floating_point() else x


def _edge(output: Tensor) -> GradientEdge:
    """Return where this output's gradient arrives; the losses keep the graph alive until then."""
    return GradientEdge(cast(Node, output.grad_fn), output.output_nr)
