"""Opacus in three of its modes, each with its own clipping, noise and optimizer step.

The parts that ``PrivacyEngine.make_private`` puts together, without its data loader and accountant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import nn

from benchmarks.methods.steps import NOISE_MULTIPLIER, NORM, Steps, UnableError, sgd
from benchmarks.models import Batches, Task, mean_loss


def hooks(task: Task, batches: Batches) -> Steps:
    """Per-sample gradients by a formula for each kind of layer: the default."""
    return _materialised(task, batches, "hooks")


def functorch(task: Task, batches: Batches) -> Steps:
    """Per-sample gradients by ``torch.func``, layer by layer."""
    return _materialised(task, batches, "functorch")


def ghost(task: Task, batches: Batches) -> Steps:
    """Norms without gradients, then a second backward pass of the weighted loss."""
    parts = _parts()
    model, optimizer = _wrapped(task, "ghost", {"max_grad_norm": NORM})
    criterion: Any = parts.DPLossFastGradientClipping(
        model, optimizer, nn.CrossEntropyLoss(reduction="mean"), loss_reduction="mean"
    )
    tokens = task.shape.task == "tokens"

    def step() -> None:
        inputs, targets = batches()
        optimizer.zero_grad()
        outputs = model(inputs)
        shape = outputs.shape if tokens else None
        criterion(outputs.flatten(0, -2), targets.flatten(), shape=shape).backward()
        optimizer.step()

    return Steps(step, _noise(model))


def _materialised(task: Task, batches: Batches, mode: str) -> Steps:
    model, optimizer = _wrapped(task, mode, {})

    def step() -> None:
        inputs, targets = batches()
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()

    return Steps(step, _noise(model))


def _wrapped(task: Task, mode: str, options: dict[str, Any]) -> tuple[Any, Any]:
    parts = _parts()
    # The first layer's input needs no gradient; its functorch mode asks for autocast in float32.
    warnings.filterwarnings("ignore", "Full backward hook is firing|In CPU autocast")
    plain = task.build()
    for module in plain.modules():
        if isinstance(module, nn.Embedding):
            # Its ghost norm takes a view of the ids, which expanded ones do not allow.
            module.register_forward_pre_hook(lambda _, ids: (ids[0].contiguous(),))
    optimizer = sgd(plain)
    model = parts.prepare_module(plain, mode, loss_reduction="mean", **options)
    kind = parts.get_optimizer_class("flat", False, mode)
    private = kind(
        optimizer, noise_multiplier=NOISE_MULTIPLIER, max_grad_norm=NORM,
        expected_batch_size=task.batch, loss_reduction="mean",
    )  # fmt: skip
    return model, private


def _noise(model: Any) -> Callable[[], None]:
    generate = import_module("opacus.optimizers.optimizer")._generate_noise
    parameters = [p for p in model.parameters() if p.requires_grad]

    def noise() -> None:
        for parameter in parameters:
            generate(std=NOISE_MULTIPLIER * NORM, reference=parameter, generator=None)

    return noise


class _Parts:
    """The names of Opacus that are used here, from the modules that define them."""

    def __init__(self) -> None:
        self.prepare_module = import_module("opacus.grad_sample.utils").prepare_module
        self.get_optimizer_class = import_module("opacus.optimizers").get_optimizer_class
        self.DPLossFastGradientClipping = import_module(
            "opacus.utils.fast_gradient_clipping_utils"
        ).DPLossFastGradientClipping


def _parts() -> _Parts:
    try:
        return _Parts()
    except ModuleNotFoundError as error:
        raise UnableError("not installed") from error
