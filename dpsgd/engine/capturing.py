"""One forward and one backward pass, and what they leave for every parameter."""

# pyright: reportUnknownMemberType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.engine.gradients import Loss, Units
from dpsgd.engine.pieces import Piece, Rows
from dpsgd.engine.precision import full_precision, running_in
from dpsgd.engine.recorder import OutdatedError
from dpsgd.engine.recording import recording
from dpsgd.engine.rows import Batch
from dpsgd.engine.settled import Settled, settle
from dpsgd.engine.strategy import Strategy
from dpsgd.engine.together import Together, is_small
from dpsgd.engine.vectors import Vectors
from dpsgd.engine.wiring import Wiring
from dpsgd.errors import PrivacyError


def pieces_of(
    model: nn.Module, strategy: Strategy, loss: Loss, inputs: Batch, targets: Batch,
    units: Units,
) -> tuple[dict[str, list[Piece]], Tensor]:  # fmt: skip
    """Return every reached parameter's pieces, and the losses ``[rows]``."""
    pieces: dict[str, list[Piece]] = {}

    def receive(name: str, piece: Piece) -> None:
        pieces.setdefault(name, []).append(piece)

    names = {id(p): n for n, p in model.named_parameters() if p.requires_grad}
    rows = len(units.unit)
    with recording(model, strategy, names, rows, receive) as recorder:
        losses = loss(model(inputs), targets)
        recorder.backward(losses, _factor(losses, rows, units), receive)
    return pieces, losses.detach()


@dataclass(frozen=True)
class Captured:
    """What one batch leaves; a parameter that is in neither has gradient zero.

    Attributes:
        settled: gradients by parameter.
        together: small ones of many parameters.
        losses: ``[rows]``, detached.

    """

    settled: dict[str, Settled]
    together: Together | None
    losses: Tensor

    def without(self, dropped: Tensor, units: Units | None) -> Captured:
        """Return this with the ``dropped`` ``[units]`` units' gradients zero."""
        settled = {name: s.without(dropped, units) for name, s in self.settled.items()}
        together = None if self.together is None else self.together.without(dropped)
        return Captured(settled, together, self.losses)


def captured(
    model: nn.Module, strategy: Strategy, loss: Loss, inputs: Batch, targets: Batch, rows: int,
    units: Units | None, autocast: str | None, wiring: Wiring,
) -> Captured:  # fmt: skip
    """Run the model once, forwards and backwards.

    A parameter is settled as soon as its last use arrives, while the backward pass goes on, so that
    what a layer kept for it can be let go. Raises OutdatedError if the model does something else
    than the strategy was chosen for.
    """
    device = wiring.device
    pieces: dict[str, list[Piece]] = {}
    settled: dict[str, Settled] = {}
    small: dict[str, Vectors | Rows] = {}
    expected: dict[str, int] = {}
    # Not the losses themselves: hooks of the graph hold what follows, and the losses the graph.
    dtype = torch.float32

    def receive(name: str, piece: Piece) -> None:
        uses = expected.get(name)
        if uses == 1:
            done(name, [piece])
            return
        held = pieces.setdefault(name, [])
        held.append(piece)
        if len(held) == uses:
            done(name, pieces.pop(name))

    def done(name: str, held: list[Piece]) -> None:
        if len(held) == 1 and is_small(piece := held[0], dtype, units):
            small[name] = piece
        else:
            settled[name] = settle(held, units)

    with recording(model, strategy, wiring.names, rows, receive) as recorder:
        with running_in(autocast, device):
            losses = loss(model(inputs), targets)
        dtype = losses.dtype
        missing = [n for n in (*strategy.fast, *strategy.recurrent) if n not in recorder.called]
        if missing:
            raise OutdatedError(f"layer {missing[0]!r} is called for other rows, not for these")
        # A parameter that the general path has a share in is settled at the end.
        expected.update({n: k for n, k in recorder.uses.items() if n not in recorder.own})
        with full_precision(device):
            recorder.backward(losses, _factor(losses, rows, units), receive)
            for name, held in pieces.items():
                done(name, held)
    return Captured(settled, Together(small, units) if small else None, losses.detach())


def _factor(losses: Tensor, rows: int, units: Units | None) -> Tensor:
    if losses.shape != (rows,):
        raise PrivacyError(f"losses of shape {tuple(losses.shape)} for {rows} rows")
    return torch.ones_like(losses) if units is None else units.factor.to(losses)
