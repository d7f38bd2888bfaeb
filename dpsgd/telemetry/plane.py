"""The plane of two mean gradients, and where single units' gradients lie in it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd.engine.gradients import Loss, Units
from dpsgd.engine.probing import gradients_alone
from dpsgd.engine.rows import Batch, count

Axes = Mapping[str, Tensor]
"""Parameter name to ``[2, *shape]``: two orthonormal directions."""

ALONG = 1e-5
"""A tail whose mean lies along the head's but for this share of it has no direction of its own."""


def plane(head: Mapping[str, Tensor], tail: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the direction of the gradient ``head``, and that of what is left of ``tail`` beside
    it.

    An axis that is not there (a gradient of zero or NaN, or a tail along the head) is NaN.
    """
    one, other = (torch.cat([value.flatten() for value in g.values()]) for g in (head, tail))
    first = one / one.norm()
    beside = other - (other @ first) * first
    beside = beside - (beside @ first) * first  # once more: rounding leaves a little of it
    length = beside.norm()
    second = beside / length if bool(length > ALONG * other.norm()) else beside * math.nan
    both = torch.stack([first, second])
    found = both.split([value.numel() for value in head.values()], dim=1)
    return {n: axes.reshape(2, *head[n].shape) for n, axes in zip(head, found, strict=True)}


def placed(
    model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, units: Units, axes: Axes
) -> Tensor:
    """Return ``[units, 2]``: every unit's gradient along the two ``axes``.

    No gradient of a unit is held. The gradient of Σ_u w_u·ℓ_u is linear in w, so that its product
    with an axis, differentiated by w, is the product of each unit's own gradient with that axis.
    What cannot be differentiated twice is done row by row.
    """
    with torch.enable_grad():
        try:
            return _twice(model, loss, inputs, targets, units, axes)
        except RuntimeError:
            return _alone(model, loss, inputs, targets, units, axes)


def _twice(
    model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, units: Units, axes: Axes
) -> Tensor:
    trained = {n: p for n, p in model.named_parameters() if n in axes}
    losses = loss(model(inputs), targets)
    weights = torch.ones(units.count, dtype=losses.dtype, device=losses.device, requires_grad=True)
    whole = (weights[units.unit] * units.factor(losses) * losses).sum()
    # Its annotation leaves out the None of a parameter that is not reached.
    gradients: Any = torch.autograd.grad(
        whole, list(trained.values()), create_graph=True, allow_unused=True
    )
    found: list[Tensor] = []
    for axis in range(2):
        along = sum(
            (gradient * axes[name][axis]).sum()
            for name, gradient in zip(trained, gradients, strict=True)
            if gradient is not None
        )
        if not isinstance(along, Tensor):  # no parameter is reached
            return losses.new_zeros(units.count, 2)
        places = torch.autograd.grad(along, weights, retain_graph=axis == 0)[0]
        _check(places, along.detach())
        found.append(places)
    return torch.stack(found, dim=1)


def _check(places: Tensor, whole: Tensor) -> None:
    """Raise RuntimeError unless the units' places add up: a backward pass of the user's own may
    leave no trace for the second one.
    """
    off = (places.sum() - whole).abs()
    if bool(off > 1e-3 * places.abs().sum().clamp(min=whole.abs())):
        raise RuntimeError("the parts of a gradient do not add up")


def _alone(
    model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, units: Units, axes: Axes
) -> Tensor:
    found, losses = gradients_alone(model, loss, inputs, targets, range(count(inputs)))
    places = losses.new_zeros(len(losses), 2)
    for name, both in axes.items():
        for row, gradient in enumerate(found[name]):
            if gradient is not None:
                places[row] += both.flatten(1) @ gradient.flatten().to(both)
    return units.add(places * units.factor(places[:, 0])[:, None])
