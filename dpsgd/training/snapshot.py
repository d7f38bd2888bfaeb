"""Where training stands after a step: all that the next one depends on, besides keyed streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from dpsgd.clipping.rule import State
from dpsgd.errors import PrivacyError
from dpsgd.training.optim import Descent


@dataclass(frozen=True)
class Snapshot:
    """The state of training after ``step``, in copies on the CPU.

    ``model`` holds every parameter and buffer by name, ``velocity`` the optimizer's by parameter
    name, ``rule`` the clipping rule's state. Batches, noise and masks are not in it: their streams
    are a function of key and step.
    """

    step: int
    model: Mapping[str, Tensor]
    velocity: Mapping[str, Tensor]
    rule: State

    @classmethod
    def of(cls, step: int, model: nn.Module, optimizer: Descent, rule: State) -> Snapshot:
        """Copy the state after ``step``. Raises TypeError for a rule's state that is no tensor."""
        return cls(step, _copies(model.state_dict()), optimizer.state(), _copies(rule))

    def restore(self, model: nn.Module, optimizer: Descent, rule: State) -> State:
        """Put model and optimizer where they were; return the rule's state, on the devices of
        ``rule``, the one that it starts from.

        Raises PrivacyError if this is the state of another model, optimizer or rule.
        """
        _check("model", self.model, model.state_dict())
        _check("optimizer", self.velocity, optimizer.state())
        _check("clipping rule", self.rule, rule)
        model.load_state_dict(dict(self.model))
        optimizer.restore(self.velocity)
        return {name: value.to(rule[name].device) for name, value in self.rule.items()}


class Keeper(Protocol):
    """Keeps snapshots of a run, and knows the one from which it goes on."""

    @property
    def start(self) -> Snapshot | None:
        """Where an earlier attempt stood; None: from the first step on."""
        ...

    def after(self, step: int, take: Callable[[], Snapshot]) -> None:
        """Keep ``take()``, the state after ``step``, if it is time to; it may end the run."""
        ...


def _copies(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    for name, value in values.items():
        if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"state {name!r} is a {type(value).__name__} and no tensor")
    return {name: value.detach().cpu().clone() for name, value in values.items()}


def _check(what: str, kept: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> None:
    if _shapes(kept) != _shapes(now):
        raise PrivacyError(f"the checkpoint's {what} has other tensors than this run's")


def _shapes(values: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: (tuple(value.shape), value.dtype) for name, value in values.items()}
