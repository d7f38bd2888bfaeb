"""The fast engine: one forward pass, one short backward pass, no per-unit gradients in memory."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.gradients import Loss, NoRows, UnitGradients, Units, trainable
from dpsgd.engine.layers import Layer, fast_layer, squared_unit_norm, squared_weight_norm
from dpsgd.engine.materialised import Materialised, scaled
from dpsgd.engine.recorder import Use, recording
from dpsgd.errors import PrivacyError


@dataclass(frozen=True)
class Bookkeeping:
    """Book-keeping for ``nn.Linear`` and ``nn.Conv2d`` (``conf/engine/bookkeeping.yaml``).

    A model with any other trainable parameter, or with parameters tied between modules, takes the
    general path as a whole: ``Materialised``.
    """

    name: str

    def capture(
        self, model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor, groups: Groups,
        units: Units | None,
    ) -> UnitGradients:  # fmt: skip
        """Run the model on ``inputs`` and keep each layer's input and output gradient.

        Raises PrivacyError if a layer with trainable parameters was not called as a module.
        """
        layers = fast_layers(model)
        if layers is None:
            return Materialised(self.name).capture(model, loss, inputs, targets, groups, units)
        like = trainable(model)
        if len(inputs) == 0:
            return NoRows(like, groups, units.count if units else 0)
        with recording(model, layers, len(inputs)) as recorder:
            losses = loss(model(inputs), targets)
            if losses.requires_grad:
                total = losses.sum() if units is None else losses @ units.factor.to(losses)
                torch.autograd.grad(total, recorder.anchor, allow_unused=True)
        idle = [name for name in layers if name not in recorder.uses]
        if idle:
            raise PrivacyError(
                f"layer {idle[0]!r} has trainable parameters and was never called as a module; "
                "freeze it, or use engine=materialised"
            )
        parts = _parts(layers, recorder.uses, like)
        return RecordedGradients(parts, losses.detach(), groups, units)


def fast_layers(model: nn.Module) -> dict[str, nn.Module] | None:
    """Return the modules with trainable parameters by name, or None unless all have a fast path
    and no parameter is shared between two of them.
    """
    owners: dict[str, nn.Module] = {}
    seen: set[int] = set()
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if p.requires_grad]
        if not own:
            continue
        if fast_layer(module) is None or any(id(p) in seen for p in own):
            return None
        seen.update(id(p) for p in own)
        owners[name] = module
    return owners


@dataclass(frozen=True)
class Part:
    """One parameter and the uses of its layer that reach the loss, at least one."""

    layer: Layer
    module: nn.Module
    kind: str
    uses: list[Use]

    def squared_norm(self, units: Units | None) -> Tensor:
        """``[units]`` squared norm of the parameter's gradient, summed over uses and rows first."""
        captured = [use.values() for use in self.uses]
        if self.kind == "bias":
            total = reduce(torch.add, [self.layer.bias_rows(g) for _, g in captured])
            return (total if units is None else units.add(total)).square().sum(1)
        rows = [self.layer.rows(self.module, a, g) for a, g in captured]
        a = rows[0][0] if len(rows) == 1 else torch.cat([r[0] for r in rows], dim=1)
        g = rows[0][1] if len(rows) == 1 else torch.cat([r[1] for r in rows], dim=1)
        return squared_weight_norm(a, g) if units is None else squared_unit_norm(a, g, units)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Σ_r w_r·grad_r given ``[rows]`` weights."""
        return reduce(torch.add, [self._sum_of(use, weights) for use in self.uses])

    def _sum_of(self, use: Use, weights: Tensor) -> Tensor:
        a, g = use.values()
        weights = weights.to(g.dtype)
        if self.kind == "bias":
            return weights @ self.layer.bias_rows(g)
        return self.layer.weight_sum(self.module, a, scaled(g, weights))


@dataclass(frozen=True)
class RecordedGradients:
    """The captured uses of one batch, by parameter name."""

    parts: dict[str, Part]
    losses: Tensor
    groups: Groups
    units: Units | None

    def norms(self) -> Tensor:
        """``[units, groups]`` norms."""
        squared = [
            torch.stack([self.parts[name].squared_norm(self.units) for name in members]).sum(0)
            for members in self.groups.parameters
        ]
        return torch.stack(squared, dim=1).sqrt()

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u for every parameter."""
        rows = weights
        if self.units is not None:
            rows = rows[self.units.unit]
        return {
            name: part.weighted_sum(rows[:, self.groups.index_of(name)])
            for name, part in self.parts.items()
        }


def _parts(
    layers: dict[str, nn.Module], uses: dict[str, list[Use]], like: dict[str, Tensor]
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for name in like:
        owner, _, kind = name.rpartition(".")
        layer = fast_layer(layers[owner])
        if layer is None:
            raise PrivacyError(f"layer {owner!r} has no fast path")
        reached = [use for use in uses[owner] if use.g is not None]
        if not reached:
            raise PrivacyError(
                f"layer {owner!r} does not reach the loss; freeze it, or use engine=materialised"
            )
        parts[name] = Part(layer, layers[owner], kind, reached)
    return parts
