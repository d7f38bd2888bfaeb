"""A model looked at on a few rows, with nothing in it left to chance."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.gradients import Loss
from dpsgd.engine.rows import Batch, take
from dpsgd.errors import PrivacyError


def quiet(model: nn.Module) -> nn.Module:
    """Return a copy in training mode with its dropout switched off."""
    probe = copy.deepcopy(model).train()
    for module in probe.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
        elif isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout:
            module.dropout = 0.0
    return probe


@contextmanager
def on_trial(model: nn.Module, dtype: torch.dtype | None) -> Generator[None]:
    """Put the model itself into training mode without dropout, its numbers into ``dtype``; then all
    is as it was. A copy would not do: a closure or hook may hold on to the model's own parts.
    """
    modes = [(m, m.training) for m in model.modules()]
    held = [(t, t.data) for t in (*model.parameters(), *model.buffers())]
    inside = [m for m in model.modules() if isinstance(m, nn.MultiheadAttention | nn.RNNBase)]
    shares = [(m, m.dropout) for m in inside]
    try:
        model.train()
        for module, _ in modes:
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.training = False
        for module in inside:
            module.dropout = 0.0
        for tensor, value in held:
            floating = dtype is not None and value.is_floating_point()
            tensor.data = value.to(dtype, copy=True) if floating else value.clone()
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for module, share in shares:
            module.dropout = share
        for tensor, value in held:
            tensor.data = value


def has_dropout(model: nn.Module) -> bool:
    """Whether the model has dropout modules, or modules that have dropout inside."""
    return any(
        isinstance(m, nn.modules.dropout._DropoutNd)
        or (isinstance(m, nn.MultiheadAttention | nn.RNNBase) and bool(m.dropout))
        for m in model.modules()
    )


def gradients_alone(
    model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, rows: Sequence[int]
) -> tuple[dict[str, list[Tensor | None]], Tensor]:
    """Return every trainable parameter's gradient of single rows by plain autograd, None where a
    row's loss does not depend on it; and the losses ``[rows]``.
    """
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    found: dict[str, list[Tensor | None]] = {name: [] for name in trained}
    losses: list[Tensor] = []
    for i in rows:
        one = slice(i, i + 1)
        value = loss(model(take(inputs, one)), take(targets, one)).sum()
        losses.append(value.detach())
        # Its annotation leaves out the None of a parameter that is not reached.
        gradients: Any = [None] * len(trained)
        if value.requires_grad:
            try:
                gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
            except RuntimeError as error:
                raise PrivacyError(f"autograd fails on this model, on one row: {error}") from error
        for name, gradient in zip(trained, gradients, strict=True):
            found[name].append(gradient)
    return found, torch.stack(losses)


def norms_alone(
    model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups,
    rows: Sequence[int],
) -> Tensor:  # fmt: skip
    """Return ``[rows, groups]`` norms of single rows' gradients by plain autograd."""
    found, _ = gradients_alone(model, loss, inputs, targets, rows)
    zero = next(p for p in model.parameters() if p.requires_grad).new_zeros(())
    squares = {
        name: torch.stack([zero if g is None else g.square().sum() for g in gradients])
        for name, gradients in found.items()
    }
    per_group = [torch.stack([squares[n] for n in m]).sum(0) for m in groups.parameters]
    return torch.stack(per_group, dim=1).sqrt()
