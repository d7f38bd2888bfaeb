"""Which path every trainable parameter of a model takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from dpsgd.engine.general import General

Place: TypeAlias = int | Literal["shared", "first"]
"""The dimension that rows have in a call, or: the call is shared by all rows, whose dimension is
put in front of its output's (``shared``) or takes the place of the first, of size one (``first``).
"""
SHARED = ("shared", "first")
DROPPED = -1
"""A lifted parameter whose first dimension of one becomes the rows."""


@dataclass(frozen=True)
class Strategy:
    """A path for every trainable parameter.

    Attributes:
        fast: layer name to the place of rows in each of its calls; an embedding of positions is
            an example of a shared call.
        recurrent: names of the recurrent layers that are written out.
        lifted: parameter name to how many dimensions of one stand between rows and the parameter's
            own, for a plain parameter that is broadcast.
        general: module name to how it is run by rows, for all parameters in it.
        silent: names of modules with parameters that are not called, and used nowhere else.

    """

    fast: dict[str, tuple[Place, ...]]
    recurrent: tuple[str, ...]
    lifted: dict[str, int]
    general: dict[str, General]
    silent: tuple[str, ...]

    def covers(self, module: str) -> bool:
        """Whether the module is run by rows, as a part of another or by itself."""
        return any(is_inside(module, outer) for outer in self.general)


def parent_of(name: str) -> str:
    """Return the name of the module around a module or parameter; ``""`` is the model."""
    return name.rpartition(".")[0]


def is_inside(name: str, module: str) -> bool:
    """Whether ``name`` is ``module`` or a part of it."""
    return not module or name == module or name.startswith(f"{module}.")


def lifted_view(own: Tensor, places: int) -> Tensor:
    """Return ``own`` ``[rows, *shape]`` in the form in which it stands for the parameter."""
    if places == DROPPED:
        return own.squeeze(1)
    return own.view(own.shape[0], *(1,) * places, *own.shape[1:])


def for_every_row(shared: Tensor, place: Place, rows: int) -> Tensor:
    """Return a tensor without rows once for every row."""
    one = shared if place == "first" else shared.unsqueeze(0)
    return one.expand(rows, *one.shape[1:]).contiguous()
