"""Values of all parameters in one tensor: one operation acts on every parameter at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

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


def zeros(like: Mapping[str, Tensor]) -> Flattened:
    """Return zeros for every parameter of ``like``, on their device."""
    values = list(like.values())
    size = sum(value.numel() for value in values)
    return Flattened(torch.zeros(size, dtype=widest(like), device=values[0].device), like)


def widest(like: Mapping[str, Tensor]) -> torch.dtype:
    """Return the type that holds all of these, float32 at least."""
    return reduce(torch.promote_types, {v.dtype for v in like.values()}, torch.float32)
