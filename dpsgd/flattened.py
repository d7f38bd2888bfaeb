"""Values of all parameters in one tensor: one operation acts on every parameter at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Flattened(Mapping[str, Tensor]):
    """Parameter name to that part of ``vector``, in the parameter's shape and type.

    Attributes:
        vector: ``[numbers]``, one parameter after another, in the widest type of all.
        like: parameter name to a tensor of that parameter's shape and type.

    """

    vector: Tensor
    like: Mapping[str, Tensor]

    @cached_property
    def parts(self) -> list[Tensor]:
        """Views of the vector in the parameters' shapes."""
        shapes = [value.shape for value in self.like.values()]
        pieces = self.vector.split([shape.numel() for shape in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    @cached_property
    def _named(self) -> dict[str, Tensor]:
        return {
            name: part.to(value.dtype)
            for part, (name, value) in zip(self.parts, self.like.items(), strict=True)
        }

    def __getitem__(self, name: str) -> Tensor:
        """Return one parameter's values."""
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names in order."""
        return iter(self.like)

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self.like)


def empty(like: Mapping[str, Tensor]) -> Flattened:
    """Return room for every parameter of ``like``, on their device, float32 at least."""
    values = [*like.values()]
    widest = torch.float32
    for dtype in {value.dtype for value in values}:
        if dtype is not widest:
            widest = torch.promote_types(widest, dtype)
    size = sum([value.numel() for value in values])
    return Flattened(torch.empty(size, dtype=widest, device=values[0].device), like)
