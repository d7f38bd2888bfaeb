"""An embedding's weight: row v of a unit's gradient is the sum of g_t over the places with id v."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.engine.gradients import Units
from dpsgd.engine.outer import sequences
from dpsgd.engine.pieces import CANCELLATION, Piece, lengths, scaled, zeroed


@dataclass(frozen=True)
class Lookup:
    """``ids`` ``[rows, T]`` and ``g`` ``[rows, T, width]``, zero where the id is padding."""

    ids: Tensor
    g: Tensor
    vocabulary: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.g)

    @property
    def size(self) -> int:
        """Number of elements held."""
        return self.ids.numel() + self.g.numel()

    @property
    def parameter_size(self) -> int:
        """Vocabulary times width."""
        return self.vocabulary * self.g.shape[2]

    def gradient(self, units: Units | None) -> Tensor:
        """Add every place to its unit's row of its id."""
        unit = torch.arange(self.rows, device=self.ids.device) if units is None else units.unit
        number = self.rows if units is None else units.count
        place = (unit.unsqueeze(1) * self.vocabulary + self.ids).flatten()
        flat = self.g.new_zeros(number * self.vocabulary, self.g.shape[2])
        flat.index_add_(0, place, self.g.flatten(0, 1))
        return flat.view(number, self.vocabulary, -1)

    def squared_norm(self, units: Units | None) -> Tensor | None:
        """Σ_{t,s} [id_t = id_s]·(g_t·g_s), unless units are of very unequal lengths."""
        ids, g = self.ids, self.g
        if units is not None:
            padded = sequences(units, ids, g)
            if padded is None:
                return None
            ids, g = padded
        positions = ids.shape[1]
        if positions == 1:
            return g.square().sum((1, 2))
        if positions**2 >= self.parameter_size:
            return None
        same = ids.unsqueeze(2) == ids.unsqueeze(1)
        found = (torch.bmm(g, g.transpose(1, 2)) * same).sum((1, 2))
        if g.dtype == torch.float64:
            return found.clamp_min(0.0)
        each = torch.linalg.vector_norm(g, dim=2)
        terms = (each.unsqueeze(2) * same * each.unsqueeze(1)).sum((1, 2))
        again = torch.nonzero((found <= CANCELLATION * terms) & (terms > 0)).flatten()
        if len(again):
            precise = g[again].double()
            exact = (torch.bmm(precise, precise.transpose(1, 2)) * same[again]).sum((1, 2))
            found = found.index_copy(0, again, exact.to(found.dtype))
        return found.clamp_min(0.0)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Add every weighted place to the row of its id."""
        flat = self.g.new_zeros(self.vocabulary, self.g.shape[2])
        return flat.index_add_(0, self.ids.flatten(), scaled(self.g, weights).flatten(0, 1))

    def joined(self, other: Piece) -> Piece | None:
        """Another use is more places."""
        if not isinstance(other, Lookup):
            return None
        ids, g = torch.cat([self.ids, other.ids], 1), torch.cat([self.g, other.g], 1)
        return Lookup(ids, g, self.vocabulary)

    def bound(self, units: Units | None) -> Tensor | None:
        """Σ_t ‖g_t‖ is at most √(places)·‖g‖."""
        ones = torch.ones_like(self.ids, dtype=self.g.dtype)
        return lengths(ones, units) * lengths(self.g, units)

    def picked(self, rows: slice | Tensor) -> Piece:
        """Index."""
        return Lookup(self.ids[rows], self.g[rows], self.vocabulary)

    def double(self) -> Piece:
        """Convert."""
        return Lookup(self.ids, self.g.double(), self.vocabulary)

    def without(self, dropped: Tensor) -> Piece:
        """Zero the gradients."""
        return Lookup(self.ids, zeroed(self.g, dropped), self.vocabulary)
