"""Small gradients of many parameters, measured and summed in one go.

On a small model an operation costs more than its arithmetic. A layer's weight and bias need the
same lengths and the same scaled rows, which are computed once; all parameters share the rest.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from dpsgd.engine.dense import Dense
from dpsgd.engine.ghosts import of_units
from dpsgd.engine.gradients import Units
from dpsgd.engine.lengths import outer_norms
from dpsgd.engine.pieces import Piece, Rows, zeroed

SMALL = 1 << 16
"""A piece with more elements has arithmetic enough to be treated by itself."""
MOST_ROWS = 256
"""Users' norms take products of every row with every other, for which there must not be more."""


def are_few(rows: int, units: Units | None) -> bool:
    """Whether gradients of so many rows may be measured together."""
    return units is None or rows <= MOST_ROWS


def is_small(piece: Piece, dtype: torch.dtype) -> TypeGuard[Rows]:
    """Whether the piece is small, and one vector a row of this type."""
    if not (isinstance(piece, Rows) and piece.value.dim() == 2 and piece.value.dtype == dtype):
        return False
    return piece.size <= SMALL


@dataclass(frozen=True)
class Together:
    """Small layers, and by parameter name other small gradients ``[rows, n]``: all of the same rows
    and type.
    """

    layers: list[Dense]
    others: dict[str, Tensor]
    units: Units | None

    def norms(self) -> tuple[list[str], Tensor]:
        """Return the parameters' names, and their ``[units, parameters]`` norms."""
        found, layers = self._measured(), self.layers
        biases = [one.bias for one in layers if one.bias is not None]
        names = [*biases, *[one.weight for one in layers], *self.others]
        return names, found if self.units is None else found.sqrt()

    def joint_norms(self) -> Tensor:
        """Return the ``[units, 1]`` norms of all parameters together."""
        found = self._measured()
        if self.units is None:
            return torch.linalg.vector_norm(found, dim=1, keepdim=True)
        return found.sum(1, keepdim=True).sqrt_()

    def _measured(self) -> Tensor:
        """Return ``[units, parameters]`` norms; where units have rows, squares of norms."""
        layers = self.layers
        outer, single = [(one.g, one.a) for one in layers], [*self.others.values()]
        units = self.units
        found = outer_norms(outer, single) if units is None else of_units(outer, single, units)
        gone = {k for k, one in enumerate(layers) if one.bias is None}
        return found[:, [k for k in range(found.shape[1]) if k not in gone]] if gone else found

    def weighted_sums(self, weights: Tensor, group_of: Mapping[str, int]) -> dict[str, Tensor]:
        """Σ_r w_rg·grad_r of every parameter, given ``[rows, groups]`` weights and the clip group
        of every parameter, where there is more than one.
        """
        one = weights.shape[1] == 1
        columns = (weights.t(),) if one else weights.unbind(1)
        found: dict[str, Tensor] = {}
        for weight, bias, a, g in self.layers:
            group = 0 if one else group_of[weight]
            turned = g.t()
            scaled = turned * columns[group]
            found[weight] = torch.mm(scaled, a)
            if bias is not None:
                shared = one or group_of[bias] == group
                found[bias] = (scaled if shared else turned * columns[group_of[bias]]).sum(1)
        for name, value in self.others.items():
            found[name] = (value.t() * columns[0 if one else group_of[name]]).sum(1)
        return found

    def without(self, dropped: Tensor) -> Together:
        """Return this with the ``dropped`` ``[units]`` units' rows zero, whatever stood there."""
        rows = dropped if self.units is None else dropped[self.units.unit]
        layers = [one.without(rows) for one in self.layers]
        others = {name: zeroed(value, rows) for name, value in self.others.items()}
        return Together(layers, others, self.units)
