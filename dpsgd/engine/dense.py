"""A small linear layer's one use: what its weight and its bias share is kept once."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from dpsgd.engine.pieces import Piece, Rows, zeroed
from dpsgd.engine.vectors import Vectors


class Dense(NamedTuple):
    """The weight's gradient g·aᵀ and the bias's g, of every row.

    ``weight`` and ``bias`` are their names in the model (``bias`` None: it has none, or it is not
    trained), ``a`` ``[rows, p]`` the layer's input and ``g`` ``[rows, q]`` the gradient at its
    output, of one type.
    """

    weight: str
    bias: str | None
    a: Tensor
    g: Tensor

    def pieces(self) -> dict[str, Piece]:
        """Return each parameter's own piece."""
        pieces: dict[str, Piece] = {self.weight: Vectors(self.a, self.g)}
        if self.bias is not None:
            pieces[self.bias] = Rows(self.g)
        return pieces

    def without(self, dropped: Tensor) -> Dense:
        """Zero both, so that no 0·∞ enters a product."""
        return self._replace(a=zeroed(self.a, dropped), g=zeroed(self.g, dropped))
