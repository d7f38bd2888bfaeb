"""A model's trainable parameters by name, remembered until the model is put together anew."""

# pyright: reportPrivateUsage=false
# (torch's public ways to the children of a module make new lists of names every time)
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import nn


@dataclass(frozen=True)
class Wiring:
    """What ``named_parameters`` says, at a fraction of its time.

    Attributes:
        parameters: the trainable ones by name; a tied parameter has its first name.
        names: the same by ``id``.
        images: whether a weight has four dimensions, as those of convolutions of images.
        first: one of the parameters, trained or not: it is where the model is.

    """

    parameters: dict[str, nn.Parameter]
    names: dict[int, str]
    images: bool
    first: nn.Parameter
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

    def holds(self) -> bool:
        """Whether every module still has the same children and parameters, trained or not."""
        for refer, child_names, child_ids, names, ids, trained in self._joints:
            module = refer()
            if module is None:
                return False
            children, parameters = module._modules, module._parameters
            if [*map(id, children.values())] != child_ids or [*children] != child_names:
                return False
            if parameters or ids:
                if [*map(id, parameters.values())] != ids or [*parameters] != names:
                    return False
                for parameter, then in trained:
                    if parameter.requires_grad is not then:
                        return False
        return True


class _Joint(NamedTuple):
    """One module. Modules are referred to weakly, so that no model is kept alive.

    Children are known by ``id``: each is alive, for it has a joint of its own.
    """

    module: ReferenceType[nn.Module]
    child_names: list[str]
    child_ids: list[int]
    names: list[str]
    ids: list[int]
    trained: list[tuple[nn.Parameter, bool]]

    @classmethod
    def of(cls, module: nn.Module) -> _Joint:
        children, parameters = module._modules, module._parameters
        trained = [(p, p.requires_grad) for p in parameters.values() if p is not None]
        return cls(ref(module), [*children], [*map(id, children.values())],
                   [*parameters], [*map(id, parameters.values())], trained)  # fmt: skip


_known: WeakKeyDictionary[nn.Module, Wiring] = WeakKeyDictionary()


def wiring_of(model: nn.Module) -> Wiring:
    """Return the wiring of ``model`` as it is now."""
    known = _known.get(model)
    if known is None or not known.holds():
        known = _known[model] = Wiring.of(model)
    return known
