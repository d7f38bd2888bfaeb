"""Plain ``torch.func``: every row's gradient by ``vmap(grad)``, then clip, add, noise, step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from benchmarks.methods.steps import NOISE_MULTIPLIER, NORM, Steps, sgd
from benchmarks.models import Batches, Task, mean_loss


def torch_func(task: Task, batches: Batches) -> Steps:
    """Return the step in the fewest lines that torch allows."""
    model = task.build()
    optimizer = sgd(model)
    parameters = dict(model.named_parameters())
    std = NOISE_MULTIPLIER * NORM

    def row_loss(trained: dict[str, Tensor], row: Tensor, target: Tensor) -> Tensor:
        outputs = functional_call(model, trained, (row.unsqueeze(0),))
        return mean_loss(outputs, target.unsqueeze(0))

    per_sample = vmap(grad(row_loss), in_dims=(None, 0, 0))

    def draw() -> dict[str, Tensor]:
        return {name: std * torch.randn_like(p) for name, p in parameters.items()}

    def step() -> None:
        gradients = per_sample({n: p.detach() for n, p in parameters.items()}, *batches())
        squares = [g.flatten(1).square().sum(1) for g in gradients.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        weights = (NORM / norms.clamp_min(1e-12)).clamp(max=1.0)
        drawn = draw()
        for name, parameter in parameters.items():
            total = torch.tensordot(weights, gradients[name], dims=1)
            parameter.grad = (total + drawn[name]) / task.batch
        optimizer.step()

    def noise() -> None:
        draw()

    return Steps(step, noise)
