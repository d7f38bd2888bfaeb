"""A fast layer's ``forward`` that keeps its input and the gradient at its output."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from dpsgd.engine.general import UnfitError
from dpsgd.engine.layers import FAST
from dpsgd.engine.precision import wide
from dpsgd.engine.recorder import SMALL, OutdatedError, Receive, Recorder
from dpsgd.engine.strategy import SHARED, Place, for_every_row
from dpsgd.errors import PrivacyError


def tapped_forward(
    name: str, module: nn.Module, calls: tuple[Place, ...], names: dict[int, str],
    recorder: Recorder, receive: Receive,
) -> Any:  # fmt: skip
    """Return the layer's ``forward`` for one pass, which also sends its parameters' pieces."""
    layer, forward = FAST.get(type(module)), module.forward
    if layer is None:
        raise OutdatedError(f"layer {name!r} has no fast path")
    full = {n: names[id(p)] for n, p in module._parameters.items() if id(p) in names}
    wanted, places = frozenset(full), iter(calls)

    def tapped(*args: Any, **kwargs: Any) -> Tensor:
        output = forward(*args, **kwargs)
        place = next(places, None)
        if place is None:
            raise OutdatedError(f"layer {name!r} is called more often than on other rows")
        recorder.called.add(name)
        if not output.requires_grad:
            return output
        given = args[0] if args else next(iter(kwargs.values()))
        a = given.detach() if given.requires_grad else given
        if place in SHARED:
            output, a = (for_every_row(x, place, recorder.rows) for x in (output, a))
        elif a.shape[place] != recorder.rows:
            raise OutdatedError(
                f"layer {name!r} sees {a.shape[place]} rows in a batch of {recorder.rows}: whose "
                "they are cannot be known"
            )
        for parameter in full.values():
            recorder.uses[parameter] = recorder.uses.get(parameter, 0) + 1
        held = [(a, a._version)]

        def caught(g: Tensor) -> None:
            if not held:
                raise UnfitError(name, f"layer {name!r}: its output is differentiated twice")
            a, version = held.pop()  # let go with it of what the layer kept
            if a._version != version:
                raise PrivacyError(
                    f"layer {name!r}: its input was changed in place after the forward pass used "
                    "it, so that its norms would be wrong. Write `x = x + y` for `x += y`, and "
                    "inplace=False, or use engine=materialised"
                )
            x, y = wide(a) if a.is_floating_point() else a, wide(g)
            if isinstance(place, int) and place > 0:
                x, y = x.movedim(place, 0), y.movedim(place, 0)
            try:
                pieces = layer(module, x, y, wanted)
            except (RuntimeError, IndexError) as error:
                raise UnfitError(name, f"layer {name!r}: {error}") from error
            for local, piece in pieces.items():
                receive(full[local], piece)

        # The gradient is that at this value, whatever is done to the tensor in place later.
        if output.numel() <= SMALL:
            recorder.small.append((get_gradient_edge(output), caught))
        else:
            output.register_hook(caught)
            if not given.requires_grad:
                recorder.ends.append(get_gradient_edge(output))
        return output

    return tapped
