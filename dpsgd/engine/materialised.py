"""The slow engine: every unit's gradient in memory. Obviously right, and so the oracle."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.gradients import Loss, NoRows, UnitGradients, Units, trainable


@dataclass(frozen=True)
class Materialised:
    """Per-unit gradients of any module through ``torch.func`` (``conf/engine/materialised.yaml``).

    Memory is units × parameters. Right for every module that maps rows to rows and that
    ``torch.func.vmap`` can trace.
    """

    name: str

    def capture(
        self, model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor, groups: Groups,
        units: Units | None,
    ) -> UnitGradients:  # fmt: skip
        """Differentiate the loss of one row at a time, all rows at once; add each unit's rows."""
        parameters = trainable(model)
        if len(inputs) == 0:
            return NoRows(parameters, groups, units.count if units else 0)
        fixed = {n: p.detach() for n, p in model.named_parameters() if not p.requires_grad}
        fixed |= dict(model.named_buffers())

        def row_loss(trained: dict[str, Tensor], row: Tensor, target: Tensor) -> Tensor:
            outputs = torch.func.functional_call(model, trained | fixed, (row.unsqueeze(0),))
            return loss(outputs, target.unsqueeze(0)).squeeze(0)

        per_row = torch.func.vmap(
            torch.func.grad_and_value(row_loss), in_dims=(None, 0, 0), randomness="different"
        )
        gradients, losses = per_row(parameters, inputs, targets)
        if units is not None:
            gradients = {name: units.add(scaled(g, units.factor)) for name, g in gradients.items()}
        return MaterialisedGradients(gradients, losses.detach(), groups)


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
        return {
            name: weighted(gradient, weights[:, self.groups.index_of(name)])
            for name, gradient in self.gradients.items()
        }


def scaled(rows: Tensor, factor: Tensor) -> Tensor:
    """Return ``rows`` ``[rows, ...]``, each multiplied by its ``factor`` ``[rows]``."""
    return rows * factor.to(rows.dtype).view(-1, *(1,) * (rows.dim() - 1))


def squared_norm(gradient: Tensor) -> Tensor:
    """Return the squared L2 norm ``[units]`` of ``[units, ...]``."""
    return gradient.flatten(1).square().sum(1) if gradient.dim() > 1 else gradient.square()


def weighted(gradient: Tensor, weights: Tensor) -> Tensor:
    """Return Σ_u w_u·gradient_u for ``[units, *shape]`` and ``[units]``."""
    return torch.tensordot(weights.to(gradient.dtype), gradient, dims=1)
