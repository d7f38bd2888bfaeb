"""Clip groups: the parameters whose gradient is clipped together."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Groups:
    """A partition of a model's trainable parameters.

    Attributes:
        names: one name per clip group: ``all``, a module's name, or a tensor's.
        parameters: for each group, the names of its parameters.
        sizes: for each group, its number of scalar parameters ``d_g``.
        index: for each parameter, the position of its group.

    """

    names: tuple[str, ...]
    parameters: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (len(self.names) == len(self.parameters) == len(self.sizes) > 0):
            raise ValueError("clip groups need one name, one parameter list and one size each")
        index = {p: g for g, members in enumerate(self.parameters) for p in members}
        if len(index) != sum(len(members) for members in self.parameters):
            raise ValueError("a parameter is in two clip groups")
        object.__setattr__(self, "index", index)

    def __len__(self) -> int:
        return len(self.names)

    def index_of(self, parameter: str) -> int:
        """Return the position of the clip group that holds ``parameter``."""
        return self.index[parameter]
