"""SGD without privacy: the step that every other is divided by."""

from __future__ import annotations

import torch

from benchmarks.methods.steps import Steps, UnableError, sgd
from benchmarks.models import Batches, Task, mean_loss


def contiguous(task: Task, batches: Batches) -> Steps:
    """Return the step as a user writes it, in torch's default memory format."""
    model = task.build()
    optimizer = sgd(model)

    def step() -> None:
        inputs, targets = batches()
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()

    return Steps(step, None)


def channels_last(task: Task, batches: Batches) -> Steps:
    """Return the step of a user who knows that ``channels_last`` is quicker on many CPUs.

    The batch is put into that format once where it is fixed, else in every step.
    """
    if len(task.shape.inputs) != 3:
        raise UnableError("the memory format is one of images")
    model = task.build()
    # The stubs leave out the overload of memory formats.
    model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    optimizer = sgd(model)

    def step() -> None:
        inputs, targets = batches()
        optimizer.zero_grad()
        outputs = model(inputs.contiguous(memory_format=torch.channels_last))
        mean_loss(outputs, targets).backward()
        optimizer.step()

    return Steps(step, None)
