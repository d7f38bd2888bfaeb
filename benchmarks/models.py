"""The models that the benchmark times, each with its batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpsgd.models.images import MLP
from dpsgd.models.shape import DataShape
from dpsgd.models.text import Transformer

Batch: TypeAlias = tuple[Tensor, Tensor]
Batches: TypeAlias = Callable[[], Batch]
"""Gives the batch of the next step."""

POOL = 2
"""The data hold so many batches; a Poisson draw above that would be twenty deviations away."""


@dataclass(frozen=True)
class Task:
    """A model and its batch. ``repeats`` are the steps that are timed unless the user says."""

    name: str
    batch: int
    repeats: int
    shape: DataShape
    build: Callable[[], nn.Module]

    def batches(self, poisson: bool) -> Batches:
        """Return a source of batches of ``batch`` rows, or of as many as Poisson sampling draws.

        Two sources give the same sizes in the same order.
        """
        inputs, targets = self._data()
        if not poisson:
            fixed = inputs[: self.batch].clone(), targets[: self.batch].clone()
            return lambda: fixed
        sizes = np.random.default_rng(0)

        def draw() -> Batch:
            # Of a data set of 16 batches, each row with probability 1/16.
            rows = min(int(sizes.binomial(16 * self.batch, 1 / 16)), len(inputs))
            return inputs[:rows], targets[:rows]

        return draw

    def _data(self) -> Batch:
        generator = torch.Generator().manual_seed(0)
        rows = POOL * self.batch
        size = (rows, *self.shape.inputs)
        if self.shape.task == "tokens":
            text = torch.randint(self.shape.vocabulary - 1, size, generator=generator)
            return text, text.roll(-1, dims=1)
        labels = torch.randint(self.shape.classes, (rows,), generator=generator)
        return torch.rand(size, generator=generator), labels


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy over the batch, as a user without privacy writes it."""
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def _mlp() -> nn.Module:
    return MLP("mlp", [128, 128], "relu").build(MLP_SHAPE)


def _cnn() -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 16, 8, stride=2, padding=3), act1=nn.Tanh(),
            pool1=nn.MaxPool2d(2, stride=1),
            conv2=nn.Conv2d(16, 32, 4, stride=2), act2=nn.Tanh(),
            pool2=nn.MaxPool2d(2, stride=1),
            flatten=nn.Flatten(), hidden=nn.Linear(512, 32), act3=nn.Tanh(),
            output=nn.Linear(32, 10),
        )
    )  # fmt: skip


def _conv_gn() -> nn.Module:
    layers: dict[str, nn.Module] = {}
    before = 3
    for block, channels in enumerate((32, 64, 128), 1):
        for i in (1, 2):
            layers[f"conv{block}{i}"] = nn.Conv2d(before, channels, 3, padding=1)
            layers[f"norm{block}{i}"] = nn.GroupNorm(8, channels)
            layers[f"act{block}{i}"] = nn.ReLU()
            before = channels
        layers[f"pool{block}"] = nn.MaxPool2d(2)
    average = {"average": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    return nn.Sequential(OrderedDict(layers | average | {"output": nn.Linear(before, 10)}))


def _transformer() -> nn.Module:
    source = Transformer("transformer", width=96, layers=2, heads=4, hidden=384, dropout=0.0)
    return source.build(TEXT_SHAPE)


MLP_SHAPE = DataShape((64,), 10, 0, "classes")
TEXT_SHAPE = DataShape((64,), 65, 65, "tokens")
TASKS = {
    task.name: task
    for task in (
        Task("mlp", 64, 400, MLP_SHAPE, _mlp),
        Task("cnn", 256, 40, DataShape((1, 28, 28), 10, 0, "classes"), _cnn),
        Task("conv-gn", 64, 7, DataShape((3, 32, 32), 10, 0, "classes"), _conv_gn),
        Task("transformer", 32, 12, TEXT_SHAPE, _transformer),
    )
}
