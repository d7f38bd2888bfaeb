"""Choose every parameter's path by trying: on a few rows a path must give autograd's gradients.

What a path gets wrong, or cannot run, goes to a more general one: from a layer's own formula to the
module by rows, then to the module around it, at last to the model as a whole.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from torch import nn

from dpsgd.engine.general import Call, General
from dpsgd.engine.gradients import Loss
from dpsgd.engine.layers import fast_layer
from dpsgd.engine.probing import on_trial
from dpsgd.engine.recurrent import fits_recurrence
from dpsgd.engine.rows import Batch, as_double, take
from dpsgd.engine.strategy import DROPPED, Place, Strategy, is_inside, parent_of
from dpsgd.engine.trial import ROWS, Trial, finite_rows, near_rows, varied
from dpsgd.errors import PrivacyError

log = logging.getLogger(__name__)

MOST_PLACES = 3
"""A plain parameter is tried with up to so many dimensions between rows and its own."""
PRECISIONS = ((torch.float64, (1e-6, 1e-9)), (None, (1e-3, 1e-5)))
"""A trial runs in float64, or, where the model insists on float32, with looser tolerances."""

_chosen: WeakKeyDictionary[nn.Module, tuple[dict[int, str], Loss, Strategy]] = WeakKeyDictionary()
_said: set[str] = set()


def strategy_of(
    model: nn.Module, names: dict[int, str], loss: Loss, inputs: Batch, targets: Batch, *,
    anew: bool = False,
) -> Strategy:  # fmt: skip
    """Return the strategy for the trainable parameters, ``names`` by id: chosen once, then
    remembered until other parameters or another loss are asked for.

    Raises PrivacyError naming the parameter for which no path gives autograd's gradient.
    """
    known = _chosen.get(model)
    if known is not None and not anew and known[1] == loss and _same(known[0], names):
        return known[2]
    with torch.random.fork_rng(devices=[]):
        chosen = _choose(model, loss, inputs, targets)
    _say(model, chosen)
    _chosen[model] = names, loss, chosen
    return chosen


@contextmanager
def remembered(model: nn.Module) -> Generator[None]:
    """Whatever rows the model is run on inside, keep the strategy that was chosen for it before."""
    known = _chosen.get(model)
    try:
        yield
    finally:
        if known is not None:
            _chosen[model] = known


def _same(known: dict[int, str], names: dict[int, str]) -> bool:
    # The same dict, nearly always, which is quicker to see than that it says the same.
    return known is names or set(known.values()) == set(names.values())


def _choose(model: nn.Module, loss: Loss, inputs: Batch, targets: Batch) -> Strategy:
    failure: Exception = PrivacyError("the model's gradients are finite on no row that was tried")
    for rows, goals in _rows_to_try(inputs, targets):
        for dtype, tolerance in PRECISIONS:
            with on_trial(model, dtype):
                chosen_rows = as_double(rows) if dtype else rows
                try:
                    trial = Trial(model, loss, chosen_rows, goals, tolerance)
                except Exception as error:  # whatever a model raises on rows that are not its own
                    failure = error
                    continue
                if trial.is_finite():
                    return _search(trial)
    raise failure


def _rows_to_try(inputs: Batch, targets: Batch) -> Generator[tuple[Batch, Batch]]:
    """Rows of many kinds first; where the model has no finite gradient there, tamer ones."""
    own = finite_rows(inputs)
    yield varied(inputs, own), varied(targets, own)
    yield near_rows(inputs), near_rows(targets)
    if len(own):
        own = own[torch.arange(ROWS + 1) % len(own)]
        yield take(inputs, own), take(targets, own)


def _search(trial: Trial) -> Strategy:
    chosen = _first(trial)
    while True:
        wrong = trial.wrong(chosen)
        if wrong is None:
            return chosen
        chosen = _wider(trial, chosen, wrong)


def _first(trial: Trial) -> Strategy:
    """Return the best path of every module by its kind."""
    chosen = Strategy({}, (), {}, {}, ())
    outside: list[str] = []
    silent: list[str] = []
    recurrent: list[str] = []
    for name, module in trial.model.named_modules():
        own = [f"{name}.{n}".lstrip(".") for n, p in module.named_parameters(recurse=False)
               if p.requires_grad]  # fmt: skip
        if not own:
            continue
        calls = trial.calls.get(name)
        places = _places(calls) if calls is not None and fast_layer(module) is not None else None
        if places is not None:
            chosen.fast[name] = places
        elif calls is not None and fits_recurrence(module, calls):
            recurrent.append(name)
        elif calls is not None and not _trains_below(module):
            outside.append(name)
        else:
            if calls is None:
                silent.append(name)
            if not _lift(trial, chosen, own):
                outside.append(name if calls is not None else parent_of(name))
    chosen = replace(chosen, recurrent=tuple(recurrent))
    for name in outside:
        chosen = _general(trial, chosen, name)
    return replace(chosen, silent=tuple(n for n in silent if not chosen.covers(n)))


def _lift(trial: Trial, chosen: Strategy, names: list[str]) -> bool:
    """Lift a module's own parameters, idle ones left as they are; False if one cannot be."""
    for name in names:
        parameter = trial.model.get_parameter(name)
        first = next(n for n, p in trial.model.named_parameters() if p is parameter)
        if first in trial.idle:
            continue
        tries = [*range(MOST_PLACES + 1)]
        if parameter.dim() and parameter.shape[0] == 1:
            tries.insert(0, DROPPED)
        # A parameter that is tied to another's name cannot be told from it.
        found = next((k for k in tries if first == name and trial.lifts(name, k)), None)
        if found is None:
            return False
        chosen.lifted[name] = found
    return True


def _wider(trial: Trial, chosen: Strategy, wrong: str) -> Strategy:
    """Give what was wrong to a more general path."""
    where = parent_of(wrong)
    outer = next((n for n in chosen.general if is_inside(where, n)), None)
    if outer is None:
        calls = chosen.fast.get(where, ())
        if "shared" in calls:
            first = tuple("first" if c == "shared" else c for c in calls)
            return replace(chosen, fast={**chosen.fast, where: first})
        return _general(
            trial, chosen, parent_of(where) if trial.calls.get(where) is None else where
        )
    general = chosen.general[outer]
    if not general.row_by_row:
        slower = {**chosen.general, outer: replace(general, row_by_row=True)}
        return replace(chosen, general=slower)
    if not outer:
        raise PrivacyError(
            f"no engine gives {wrong.rstrip('.') or 'the model'!r} the gradient that autograd "
            "gives it on single rows: the model or its backward pass mixes rows"
        )
    return _general(trial, chosen, parent_of(outer))


def _general(trial: Trial, chosen: Strategy, name: str) -> Strategy:
    """Run the first module outwards from ``name`` by rows in which rows can be told apart."""
    clear = _clear(trial.calls.get(name))
    while clear is None:
        if not name:
            raise PrivacyError(
                "the rows of a batch cannot be told apart in the model's inputs and outputs: keep "
                "them in one dimension of every tensor"
            )
        name = parent_of(name)
        clear = _clear(trial.calls.get(name))
    if chosen.covers(name):
        return chosen
    return Strategy(
        {n: c for n, c in chosen.fast.items() if not is_inside(n, name)},
        tuple(n for n in chosen.recurrent if not is_inside(n, name)),
        {n: k for n, k in chosen.lifted.items() if not is_inside(parent_of(n), name)},
        {n: g for n, g in chosen.general.items() if not is_inside(n, name)}
        | {name: General(clear, row_by_row=False)},
        tuple(n for n in chosen.silent if not is_inside(n, name)),
    )


def _clear(calls: list[Call | None] | None) -> tuple[Call, ...] | None:
    """Return the calls, if there are any and rows stand in arguments and outputs of each."""
    clear = [
        c for c in calls or []
        if c is not None and any(d is not None for d in c.inputs)
        and any(d is not None for d in c.outputs)
    ]  # fmt: skip
    return tuple(clear) if calls and len(clear) == len(calls) else None


def _places(calls: list[Call | None]) -> tuple[Place, ...] | None:
    """Where rows are in each call of a layer; None if its formula does not fit."""
    places: list[Place] = []
    for call in calls:
        if call is None or len(call.outputs) != 1 or call.inputs[:1] != call.outputs:
            return None
        if any(d is not None for d in call.inputs[1:]):
            return None
        dim = call.outputs[0]
        places.append("shared" if dim is None else dim)
    return tuple(places)


def _trains_below(module: nn.Module) -> bool:
    return any(p.requires_grad for child in module.children() for p in child.parameters())


def _say(model: nn.Module, chosen: Strategy) -> None:
    """Name what has no fast path, once."""
    for name, general in chosen.general.items():
        module = model.get_submodule(name)
        how = "row by row, slowly" if general.row_by_row else "through torch.func"
        size = sum(p.numel() for p in module.parameters() if p.requires_grad)
        line = (
            f"{name or 'the model'} ({type(module).__name__}) takes the general path, {how}: "
            f"{size:,} numbers a row in memory"
        )
        if line not in _said:
            _said.add(line)
            log.warning(line)
