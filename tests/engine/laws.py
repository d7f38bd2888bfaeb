"""What an engine must give: plain autograd on the rows of one unit alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as tree

from dpsgd.engine import Units, clip_groups


@dataclass(frozen=True)
class Case:
    """A model and how to make ``n`` rows for it."""

    model: nn.Module
    rows: Callable[[int], Any]


@dataclass(frozen=True)
class Alone:
    """The oracle's answer: ``[units, groups]`` norms, and every unit's gradient by name."""

    norms: torch.Tensor
    gradients: list[dict[str, torch.Tensor]]
    like: dict[str, torch.Tensor]

    def weighted_sum(self, weights, groups):
        sums = {name: torch.zeros_like(value) for name, value in self.like.items()}
        for u, own in enumerate(self.gradients):
            for name in sums:
                sums[name] += weights[u, groups.index_of(name)] * own[name]
        return sums


def curved_loss(outputs, targets):
    """One value a row, of another slope for every number that the model gives."""
    total = 0.0
    for value in tree.tree_leaves(outputs):
        flat = value.reshape(len(value), -1)
        slope = torch.linspace(0.5, 1.5, max(flat.shape[1], 1)).to(flat)[: flat.shape[1]]
        total = total + ((flat.sin() + 0.1 * flat.square()) * slope).sum(1)
    return total * (1 + targets.square())


def take(inputs, rows):
    return tree.tree_map(lambda value: value[rows], inputs)


def count(inputs):
    return len(tree.tree_leaves(inputs)[0])


def units_of(sizes, combine):
    unit = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.int64))
    return Units.of(unit, len(sizes), combine)


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def jittered(model):
    """Move every parameter off its initial value: ones and zeros hide forgotten factors."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def alone(model, loss, inputs, targets, groups, units):
    """Differentiate the loss of one unit's rows after the other, by plain autograd."""
    parameters = trained(model)
    like = {name: p.detach() for name, p in parameters.items()}
    gradients = []
    for u in range(count(inputs) if units is None else units.count):
        rows = torch.tensor([u]) if units is None else torch.nonzero(units.unit == u).flatten()
        own = {name: torch.zeros_like(value) for name, value in like.items()}
        if len(rows):
            losses = loss(model(take(inputs, rows)), targets[rows])
            whole = losses.new_ones(1 if units is None else len(units.unit))
            factor = whole if units is None else units.factor(whole)[rows]
            value = (losses * factor.to(losses)).sum()
            if value.requires_grad:
                found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
                own |= {n: g for n, g in zip(own, found, strict=True) if g is not None}
        gradients.append(own)
    norms = [
        torch.stack([torch.cat([own[n].flatten() for n in m]).norm() for m in groups.parameters])
        for own in gradients
    ]
    first = next(iter(like.values()))
    return Alone(torch.stack(norms) if norms else first.new_zeros(0, len(groups)), gradients, like)


def check_equal(engine, case, sizes, granularity="layer", combine="sum", rtol=1e-8, atol=1e-10):
    """Assert losses, norms and sums. ``sizes`` is a number of records, or the rows of each user."""
    units = None if isinstance(sizes, int) else units_of(sizes, combine)
    n = sizes if isinstance(sizes, int) else sum(sizes)
    model, inputs, targets = case.model, case.rows(n), torch.rand(n, dtype=torch.float64)
    groups = clip_groups(model, granularity)
    right = alone(model, curved_loss, inputs, targets, groups, units)
    found = engine.capture(model, curved_loss, inputs, targets, groups, units)
    weights = torch.rand(right.norms.shape, dtype=torch.float64)
    with torch.no_grad():
        losses = curved_loss(model(inputs), targets) if n else torch.zeros(0)
    close = {"rtol": rtol, "atol": atol, "check_dtype": False}
    torch.testing.assert_close(found.losses, losses, **close)
    torch.testing.assert_close(found.norms(), right.norms, **close)
    torch.testing.assert_close(
        found.weighted_sum(weights), right.weighted_sum(weights, groups), **close
    )
    assert all(p.grad is None for p in model.parameters())
