"""The slow engine: every unit's gradient in memory. Obviously right, and so the oracle."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.general import slow_operations_allowed
from dpsgd.engine.gradients import Loss, NoRows, UnitGradients, Units, trainable
from dpsgd.engine.pieces import scaled, squared_norm, weighted, zeroed
from dpsgd.engine.precision import full_precision, running_in, wide
from dpsgd.engine.probing import gradients_alone
from dpsgd.engine.rows import Batch, count, tree_map_rows


@dataclass(frozen=True)
class Materialised:
    """Per-unit gradients of any module through ``torch.func`` (``conf/engine/materialised.yaml``).

    Memory is units × parameters. What ``torch.func.vmap`` cannot trace is differentiated row by
    row. The attributes are those of ``Bookkeeping``.
    """

    name: str
    micro_batch: int | Literal["auto"] | None
    memory_gb: float
    autocast: Literal["bfloat16"] | None
    non_finite: Literal["stop", "drop"]

    def capture(
        self, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups,
        units: Units | None,
    ) -> UnitGradients:  # fmt: skip
        """Differentiate the loss of one row at a time, all rows at once; add each unit's rows."""
        parameters = trainable(model)
        if count(inputs) == 0:
            return NoRows(parameters, groups, units.count if units else 0)
        with torch.enable_grad(), running_in(self.autocast, next(iter(parameters.values()))):
            try:
                gradients, losses = _all_at_once(model, parameters, loss, inputs, targets)
            except RuntimeError:
                gradients, losses = _row_by_row(model, parameters, loss, inputs, targets)
        gradients = {name: wide(g) for name, g in gradients.items()}
        if units is not None:
            factor = units.factor(losses.detach().double())
            gradients = {name: units.add(scaled(g, factor)) for name, g in gradients.items()}
        return MaterialisedGradients(gradients, losses.detach(), groups)


def _all_at_once(
    model: nn.Module, parameters: dict[str, Tensor], loss: Loss, inputs: Batch, targets: Batch
) -> tuple[dict[str, Tensor], Tensor]:
    fixed = {n: p.detach() for n, p in model.named_parameters() if not p.requires_grad}
    fixed |= dict(model.named_buffers())

    def row_loss(trained: dict[str, Tensor], row: Any, target: Any) -> Tensor:
        row, target = (tree_map_rows(lambda t: t.unsqueeze(0), x) for x in (row, target))
        outputs = torch.func.functional_call(model, trained | fixed, (row,))
        return loss(outputs, target).squeeze(0)

    per_row = torch.func.vmap(
        torch.func.grad_and_value(row_loss), in_dims=(None, 0, 0), randomness="different"
    )
    with slow_operations_allowed():
        return per_row(parameters, inputs, targets)


def _row_by_row(
    model: nn.Module, parameters: dict[str, Tensor], loss: Loss, inputs: Batch, targets: Batch
) -> tuple[dict[str, Tensor], Tensor]:
    found, losses = gradients_alone(model, loss, inputs, targets, range(count(inputs)))
    stacked = {
        name: torch.stack([torch.zeros_like(parameters[name]) if g is None else g for g in rows])
        for name, rows in found.items()
    }
    return stacked, losses


@dataclass(frozen=True)
class MaterialisedGradients:
    """Every unit's gradient: parameter name to ``[units, *shape]``."""

    gradients: dict[str, Tensor]
    losses: Tensor
    groups: Groups

    def norms(self) -> Tensor:
        """``[units, groups]`` norms."""
        per_group = [
            torch.stack([squared_norm(self.gradients[name]) for name in members]).sum(0)
            for members in self.groups.parameters
        ]
        return torch.stack(per_group, dim=1).sqrt()

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u for every parameter."""
        with full_precision(weights):
            return {
                name: weighted(gradient, weights[:, self.groups.index_of(name)])
                for name, gradient in self.gradients.items()
            }

    def without(self, dropped: Tensor) -> UnitGradients:
        """Return the batch with the ``dropped`` ``[units]`` units' gradients zero."""
        kept = {name: zeroed(g, dropped) for name, g in self.gradients.items()}
        return MaterialisedGradients(kept, self.losses, self.groups)
