"""One forward and one backward pass, and what they leave for every parameter."""

# pyright: reportUnknownMemberType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.engine.dense import Dense
from dpsgd.engine.gradients import Loss, Units
from dpsgd.engine.pieces import Piece
from dpsgd.engine.precision import full_precision, running_in
from dpsgd.engine.recorder import OutdatedError
from dpsgd.engine.recording import Recording
from dpsgd.engine.rows import Batch
from dpsgd.engine.settled import Settled, settle
from dpsgd.engine.strategy import Strategy
from dpsgd.engine.together import Together, are_few, is_small
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
    with Recording(model, strategy, names, rows, receive) as recorder:
        losses = loss(model(inputs), targets)
        recorder.backward(losses, _factor(losses, rows, units), receive)
    for one in recorder.dense:
        for name, piece in one.pieces().items():
            receive(name, piece)
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
    pieces: dict[str, list[Piece]] = {}
    settled: dict[str, Settled] = {}
    small: dict[str, Tensor] = {}
    expected: dict[str, int] = {}
    few = are_few(rows, units)
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
        if few and len(held) == 1 and is_small(piece := held[0], dtype):
            small[name] = piece.value
        else:
            settled[name] = settle(held, units)

    with Recording(model, strategy, wiring.names, rows, receive) as recorder:
        with running_in(autocast, wiring.first):
            losses = loss(model(inputs), targets)
        dtype = losses.dtype
        _check_called(strategy, recorder.called)
        # A parameter that the general path has a share in is settled at the end.
        expected.update({n: k for n, k in recorder.uses.items() if n not in recorder.own})
        with full_precision(losses):
            recorder.backward(losses, _factor(losses, rows, units), receive)
            dense: list[Dense] = []
            for one in recorder.dense:
                if few and one.a.dtype is dtype and one.g.dtype is dtype:
                    dense.append(one)
                else:
                    pieces |= {name: [piece] for name, piece in one.pieces().items()}
            for name, held in pieces.items():
                done(name, held)
    together = Together(dense, small, units) if dense or small else None
    return Captured(settled, together, losses.detach())


def _check_called(strategy: Strategy, called: set[str]) -> None:
    if len(called) == len(strategy.fast) + len(strategy.recurrent):
        return
    for name in (*strategy.fast, *strategy.recurrent):
        if name not in called:
            raise OutdatedError(f"layer {name!r} is called for other rows, not for these")


def _factor(losses: Tensor, rows: int, units: Units | None) -> Tensor:
    if losses.shape != (rows,):
        raise PrivacyError(f"losses of shape {tuple(losses.shape)} for {rows} rows")
    # A new one every time: a backward pass may write into it.
    return torch.ones_like(losses) if units is None else units.factor(losses)
