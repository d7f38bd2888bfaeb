"""Run a model once with every parameter's gradient kept apart by rows.

Fast layers leave their input and the gradient at their output; plain parameters and modules without
a fast path get parameters of every row's own. Everything is undone when the context closes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from dpsgd.engine.general import General, by_row
from dpsgd.engine.recorder import OutdatedError, Receive, Recorder
from dpsgd.engine.recurrent import unrolled_forward
from dpsgd.engine.strategy import Strategy, lifted_view
from dpsgd.engine.taps import tapped_forward, taps_of


class Recording:
    """Catch every trainable parameter's uses in one forward pass of ``rows`` rows.

    ``names`` are the trainable parameters' by ``id``. A context that gives a :class:`Recorder`.
    """

    def __init__(
        self, model: nn.Module, strategy: Strategy, names: dict[int, str], rows: int,
        receive: Receive,
    ) -> None:  # fmt: skip
        self._model, self._strategy, self._names, self._receive = model, strategy, names, receive
        self._recorder = Recorder(rows)
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Recorder:
        """Put everything in place, or nothing."""
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self._recorder

    def __exit__(self, *_: object) -> None:
        """Undo the last first."""
        for step in reversed(self._undo):
            step()

    def _begin(self) -> None:
        model, strategy, names, undo = self._model, self._strategy, self._names, self._undo
        recorder, receive = self._recorder, self._receive
        for tap in taps_of(model, strategy, names):
            module: Any = tap.module()
            own = vars(module)
            own["forward"] = tapped_forward(tap, module, recorder, receive)
            undo.append(partial(own.pop, "forward"))
        for name in strategy.recurrent:
            module = model.get_submodule(name)
            vars(module)["forward"] = unrolled_forward(name, module, names, recorder, receive)
            undo.append(partial(vars(module).pop, "forward"))
        for name, general in strategy.general.items():
            undo.append(_run_by_row(name, model.get_submodule(name), general, names, recorder))
        for name, places in strategy.lifted.items():
            owner, _, local = name.rpartition(".")
            undo.append(_lift(model.get_submodule(owner), local, name, places, recorder))
        for name in strategy.silent:
            undo.append(model.get_submodule(name).register_forward_pre_hook(_alarm(name)).remove)


def _alarm(name: str) -> Any:
    def alarm(_: nn.Module, args: Any) -> None:
        raise OutdatedError(f"module {name!r} is called, and was not on other rows")

    return alarm


def _run_by_row(
    name: str, module: nn.Module, general: General, names: dict[int, str], recorder: Recorder
) -> Callable[[], None]:
    calls = iter(general.calls)
    own = {local: (names[id(p)], p) for local, p in module.named_parameters() if id(p) in names}

    def forward(*args: Any, **kwargs: Any) -> Any:
        call = next(calls, None)
        if call is None:
            raise OutdatedError(f"module {name!r} is called more often than on other rows")
        parameters = {local: recorder.own_of(n, p) for local, (n, p) in own.items()}
        undo()
        try:
            return by_row(name, module, parameters, call, general.row_by_row, args, kwargs)
        finally:
            module.forward = forward

    before = module.__dict__.get("forward")

    def undo() -> None:
        if before is None:
            del module.forward
        else:
            module.forward = before

    module.forward = forward
    return undo


def _lift(
    module: nn.Module, local: str, name: str, places: int, recorder: Recorder
) -> Callable[[], None]:
    parameter: Any = module._parameters[local]
    leaf: Any = lifted_view(recorder.own_of(name, parameter), places)
    module._parameters[local] = leaf

    def undo() -> None:
        module._parameters[local] = parameter

    return undo
