"""A model's trainable parameters by name, remembered until the model is put together anew."""

# pyright: reportPrivateUsage=false
# (torch's public ways to the children of a module make new lists of names every time)
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import nn


@dataclass(frozen=True)
class Wiring:
    """What ``named_parameters`` says, at a fraction of its time.

    Attributes:
        parameters: the trainable ones by name; a tied parameter has its first name.
        names: the same by ``id``.
        images: whether a weight has four dimensions, as those of convolutions of images.

    """

    parameters: dict[str, nn.Parameter]
    names: dict[int, str]
    images: bool
    _first: nn.Parameter
    _joints: tuple[_Joint, ...]

    @classmethod
    def of(cls, model: nn.Module) -> Wiring:
        """Look at all modules of ``model``."""
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        return cls(
            trained,
            {id(p): name for name, p in trained.items()},
            any(p.dim() == 4 for p in trained.values()),
            next(model.parameters()),
            tuple(_Joint.of(module) for module in model.modules()),
        )

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._first.device

    def holds(self) -> bool:
        """Whether every module still has the same children and parameters, trained or not."""
        for joint, children_then, parameters_then in self._joints:
            module = joint()
            if module is None:
                return False
            children, parameters = module._modules, module._parameters
            if len(children) != len(children_then) or len(parameters) != len(parameters_then):
                return False
            for name, child in children_then:
                if children.get(name) is not (None if child is None else child()):
                    return False
            for name, parameter, trained in parameters_then:
                if parameters.get(name) is not parameter:
                    return False
                if parameter is not None and parameter.requires_grad is not trained:
                    return False
        return True


class _Joint(NamedTuple):
    """One module. Modules are referred to weakly, so that no model is kept alive."""

    module: ReferenceType[nn.Module]
    children: tuple[tuple[str, ReferenceType[nn.Module] | None], ...]
    parameters: tuple[tuple[str, nn.Parameter | None, bool], ...]

    @classmethod
    def of(cls, module: nn.Module) -> _Joint:
        children = ((name, None if child is None else ref(child))
                    for name, child in module._modules.items())  # fmt: skip
        own = ((name, p, p is not None and p.requires_grad)
               for name, p in module._parameters.items())  # fmt: skip
        return cls(ref(module), tuple(children), tuple(own))


_known: WeakKeyDictionary[nn.Module, Wiring] = WeakKeyDictionary()


def wiring_of(model: nn.Module) -> Wiring:
    """Return the wiring of ``model`` as it is now."""
    known = _known.get(model)
    if known is None or not known.holds():
        known = _known[model] = Wiring.of(model)
    return known
