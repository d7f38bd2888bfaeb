"""One forward and one backward pass, and what they leave for every parameter."""

# pyright: reportUnknownMemberType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from torch import Tensor, nn

from dpsgd.engine.gradients import Loss, Units
from dpsgd.engine.pieces import Piece
from dpsgd.engine.precision import full_precision, running_in
from dpsgd.engine.recorder import OutdatedError
from dpsgd.engine.recording import recording
from dpsgd.engine.rows import Batch
from dpsgd.engine.settled import Settled, settle
from dpsgd.engine.strategy import Strategy
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
        recorder.backward(_total(losses, rows, units), receive)
    return pieces, losses.detach()


def settled_of(
    model: nn.Module, strategy: Strategy, loss: Loss, inputs: Batch, targets: Batch, rows: int,
    units: Units | None, autocast: str | None, names: dict[int, str],
) -> tuple[dict[str, Settled], Tensor]:  # fmt: skip
    """Return every reached parameter's settled gradients, and the losses ``[rows]``.

    A parameter is settled as soon as its last use arrives, while the backward pass goes on, so that
    what a layer kept for it can be let go. Raises OutdatedError if the model does something else
    than the strategy was chosen for.
    """
    device = next(model.parameters()).device
    pieces: dict[str, list[Piece]] = {}
    settled: dict[str, Settled] = {}
    expected: dict[str, int] = {}

    def receive(name: str, piece: Piece) -> None:
        held = pieces.setdefault(name, [])
        held.append(piece)
        if len(held) == expected.get(name):
            settled[name] = settle(pieces.pop(name), units)

    with recording(model, strategy, names, rows, receive) as recorder:
        with running_in(autocast, device):
            losses = loss(model(inputs), targets)
        missing = [n for n in (*strategy.fast, *strategy.recurrent) if n not in recorder.called]
        if missing:
            raise OutdatedError(f"layer {missing[0]!r} is called for other rows, not for these")
        # A parameter that the general path has a share in is settled at the end.
        expected.update({n: k for n, k in recorder.uses.items() if n not in recorder.own})
        with full_precision(device):
            recorder.backward(_total(losses, rows, units), receive)
            settled |= {name: settle(held, units) for name, held in pieces.items()}
    return settled, losses.detach()


def _total(losses: Tensor, rows: int, units: Units | None) -> Tensor:
    if losses.shape != (rows,):
        raise PrivacyError(f"losses of shape {tuple(losses.shape)} for {rows} rows")
    return losses.sum() if units is None else losses @ units.factor.to(losses)
