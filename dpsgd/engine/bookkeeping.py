"""The fast engine: one forward and one short backward pass, gradients only where small."""

# pyright: reportUnknownMemberType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.capturing import settled_of
from dpsgd.engine.choosing import strategy_of
from dpsgd.engine.gradients import Loss, NoRows, UnitGradients, Units
from dpsgd.engine.precision import full_precision
from dpsgd.engine.recorder import OutdatedError
from dpsgd.engine.rows import Batch, count, image_layout
from dpsgd.engine.settled import Settled


@dataclass(frozen=True)
class Bookkeeping:
    """Norms and weighted sums from each layer's input and output gradient
    (``conf/engine/bookkeeping.yaml``).

    Linear, convolution, embedding and normalisation layers have formulas; plain parameters are
    broadcast with rows in front; any other module is run with parameters of every row's own. Which
    path a parameter takes is chosen by trying, see ``strategy_of``.

    Attributes:
        name: as the configuration calls it.
        micro_batch: rows captured at a time; ``auto``: as many as ``memory_gb`` holds; None: all.
        memory_gb: GiB that ``micro_batch=auto`` keeps to.
        autocast: None, or ``bfloat16`` for the model's own passes; norms and sums are float32.
        non_finite: whether a unit whose gradient is not finite stops the run or is dropped.

    """

    name: str
    micro_batch: int | Literal["auto"] | None
    memory_gb: float
    autocast: Literal["bfloat16"] | None
    non_finite: Literal["stop", "drop"]

    @torch.enable_grad()
    def capture(
        self, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups,
        units: Units | None,
    ) -> UnitGradients:  # fmt: skip
        """Run the model once, forwards and backwards.

        Raises PrivacyError if the model uses a parameter in another way than on the rows by which
        its strategy was chosen.
        """
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        rows, like = count(inputs), {n: p.detach() for n, p in parameters.items()}
        if rows == 0:
            return NoRows(like, groups, units.count if units else 0)
        names = {id(p): n for n, p in parameters.items()}
        if any(p.dim() == 4 for p in like.values()):
            model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  (torch's overloads lack it)
            inputs = image_layout(inputs)

        def attempt(anew: bool) -> tuple[dict[str, Settled], Tensor]:
            strategy = strategy_of(model, names, loss, inputs, targets, anew=anew)
            return settled_of(
                model, strategy, loss, inputs, targets, rows, units, self.autocast, names
            )

        try:
            settled, losses = attempt(anew=False)
        except OutdatedError:
            settled, losses = attempt(anew=True)
        return RecordedGradients(settled, losses, like, groups, units)


@dataclass(frozen=True)
class RecordedGradients:
    """The settled gradients of one batch by parameter; one that is missing is zero."""

    settled: dict[str, Settled]
    losses: Tensor
    like: dict[str, Tensor]
    groups: Groups
    units: Units | None

    @property
    def _count(self) -> int:
        return len(self.losses) if self.units is None else self.units.count

    def norms(self) -> Tensor:
        """``[units, groups]`` norms."""
        squared: list[Tensor] = []
        for members in self.groups.parameters:
            reached = [self.settled[n].squared for n in members if n in self.settled]
            squared.append(
                torch.stack(reached).sum(0) if reached else self.losses.new_zeros(self._count)
            )
        return torch.stack(squared, dim=1).sqrt()

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u for every parameter."""
        found = {
            name: torch.zeros_like(v) for name, v in self.like.items() if name not in self.settled
        }
        with full_precision(weights.device):
            for members, column in zip(self.groups.parameters, weights.unbind(1), strict=True):
                of_rows = column if self.units is None else column[self.units.unit]
                for name in members:
                    if name in self.settled:
                        total = self.settled[name].weighted_sum(column, of_rows)
                        shape = self.like[name].shape
                        found[name] = total if total.shape == shape else total.view(shape)
        return {name: found[name] for name in self.like}

    def without(self, dropped: Tensor) -> UnitGradients:
        """Return the batch with the ``dropped`` ``[units]`` units' gradients zero."""
        settled = {n: s.without(dropped, self.units) for n, s in self.settled.items()}
        return RecordedGradients(settled, self.losses, self.like, self.groups, self.units)
