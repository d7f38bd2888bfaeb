"""A draw in micro-batches: whole units, of which one share is captured at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.checks import check_row_alone, is_checked
from dpsgd.engine.gradients import Combine, Engine, Loss, UnitGradients, Units
from dpsgd.engine.probing import has_dropout
from dpsgd.engine.rows import Batch
from dpsgd.randomness import Streams


@dataclass(frozen=True)
class Share:
    """Consecutive units of a draw, and their rows.

    Attributes:
        rows: ``slice`` of the draw's rows.
        unit: ``[rows]`` int64, ascending: the unit of each of these rows, 0 … count−1.
        count: how many units; it counts those without rows.

    """

    rows: slice
    unit: Tensor
    count: int


def shares(unit: Tensor, count: int, most: int | None) -> Iterator[Share]:
    """Split a draw of ``count`` units, row i being of ``unit[i]`` (ascending, on the CPU).

    Each share has at most ``most`` rows, unless its one unit has more: a unit is clipped as a
    whole, and so it is never split. ``most`` None gives everything in one share; an empty draw is
    one empty share, because it is a step of pure noise.
    """
    if most is None or len(unit) <= most:
        yield Share(slice(0, len(unit)), unit, count)
        return
    ends = torch.bincount(unit, minlength=count).cumsum(0)
    first, row = 0, 0
    while first < count:
        # As many units as end within `most` rows from here, and at least this one.
        last = max(int(torch.searchsorted(ends, row + most, right=True)), first + 1)
        end = int(ends[last - 1])
        yield Share(slice(row, end), unit[row:end] - first, last - first)
        first, row = last, end


@dataclass(frozen=True)
class Capture:
    """What does not change from share to share. ``combine`` None: every row is a unit."""

    engine: Engine
    model: nn.Module
    loss: Loss
    groups: Groups
    combine: Combine | None

    def share(
        self, inputs: Batch, targets: Batch, share: Share, probed: int | None
    ) -> UnitGradients:
        """Return the gradients of the share's units; ``inputs`` and ``targets`` are its rows.

        Raises PrivacyError if row ``probed`` of the draw is in it and depends on other rows.
        """
        units = None
        if self.combine is not None:
            device = next(self.model.parameters()).device
            units = Units.of(share.unit.to(device), share.count, self.combine)
        gradients = self.engine.capture(self.model, self.loss, inputs, targets, self.groups, units)
        if probed is not None and share.rows.start <= probed < share.rows.stop:
            self._check(inputs, targets, gradients.losses, probed - share.rows.start)
        return gradients

    def _check(self, inputs: Batch, targets: Batch, losses: Tensor, row: int) -> None:
        if not bool(torch.isfinite(losses[row])):
            return  # NaN is not equal to itself; what happens to it is for `non_finite` to say
        if self.engine.autocast is not None and not has_dropout(self.model):
            with torch.no_grad():  # bfloat16 may round a row alone in another way
                losses = self.loss(self.model(inputs), targets)
        check_row_alone(self.model, self.loss, inputs, targets, losses, row)


def probed_row(streams: Streams, step: int, rows: int) -> int | None:
    """Return the row of this step's draw that is looked at alone, or None for most steps."""
    if not rows or not is_checked(step):
        return None
    return int(torch.randint(rows, (), generator=streams.generator("probe", step)))
