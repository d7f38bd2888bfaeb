"""Models for images ``[n, channels, height, width]``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

from torch import nn

from dpsgd.errors import ConfigError
from dpsgd.models.shape import DataShape

Activation = Literal["tanh", "relu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression on the pixels."""

    name: str

    def build(self, shape: DataShape) -> nn.Module:
        """Flatten, then one linear layer."""
        shape.need_dense(self.name)
        return nn.Sequential(
            OrderedDict(flatten=nn.Flatten(), output=nn.Linear(prod(shape.inputs), shape.classes))
        )


@dataclass(frozen=True)
class MLP:
    """Fully connected layers of the given widths."""

    name: str
    hidden: Sequence[int]
    activation: Activation

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError("hidden", list(self.hidden), "needs one width above 0 a layer")

    def build(self, shape: DataShape) -> nn.Module:
        """Flatten, then linear layers with the activation between them."""
        shape.need_dense(self.name)
        widths = [prod(shape.inputs), *self.hidden]
        layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
        for i, (before, after) in enumerate(pairwise(widths), 1):
            layers[f"hidden{i}"] = nn.Linear(before, after)
            layers[f"act{i}"] = ACTIVATIONS[self.activation]()
        layers["output"] = nn.Linear(widths[-1], shape.classes)
        return nn.Sequential(OrderedDict(layers))


@dataclass(frozen=True)
class CNN:
    """Two 3×3 convolutions with max pooling, tanh, one hidden layer.

    Tanh bounds the activations, which suits clipped gradients (Papernot et al., AAAI 2021). It
    comes after pooling: for a rising activation the result is the same, at a quarter of the work.
    """

    name: str
    channels: tuple[int, int]
    hidden: int
    activation: Activation

    def build(self, shape: DataShape) -> nn.Module:
        """Convolve, pool, twice; then two linear layers."""
        need_images(shape, self.name, 4)
        colours, height, width = shape.inputs
        act = ACTIVATIONS[self.activation]
        first, second = self.channels
        flat = second * (height // 4) * (width // 4)
        return nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(colours, first, 3, padding=1), pool1=nn.MaxPool2d(2), act1=act(),
                conv2=nn.Conv2d(first, second, 3, padding=1), pool2=nn.MaxPool2d(2), act2=act(),
                flatten=nn.Flatten(), hidden=nn.Linear(flat, self.hidden), act3=act(),
                output=nn.Linear(self.hidden, shape.classes),
            )
        )  # fmt: skip


@dataclass(frozen=True)
class StridedCNN:
    """Convolutions of 16 8×8 and 32 4×4 filters with stride 2 and tanh, each pooled 2×2 with stride
    1, one hidden layer: the network of Papernot et al. (AAAI 2021) and Tramèr & Boneh (ICLR 2021).

    Pooling comes before tanh, as in ``CNN``.
    """

    name: str
    hidden: int

    def build(self, shape: DataShape) -> nn.Module:
        """Return the model; raises ConfigError for images below 20 pixels."""
        need_images(shape, self.name, 20)
        colours, height, width = shape.inputs
        # (x + 4 − 8)/2 + 1, pooled to one less; then (x − 4)/2 + 1, pooled to one less.
        high, wide = (((x - 4) // 2 - 4) // 2 for x in (height, width))
        return nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(colours, 16, 8, stride=2, padding=2),
                pool1=nn.MaxPool2d(2, 1), act1=nn.Tanh(),
                conv2=nn.Conv2d(16, 32, 4, stride=2), pool2=nn.MaxPool2d(2, 1), act2=nn.Tanh(),
                flatten=nn.Flatten(), hidden=nn.Linear(32 * high * wide, self.hidden),
                act3=nn.Tanh(), output=nn.Linear(self.hidden, shape.classes),
            )
        )  # fmt: skip


def need_images(shape: DataShape, model: str, pixels: int) -> None:
    """Raise ConfigError unless rows are ``[channels, height, width]`` of that many pixels."""
    shape.need_dense(model)
    if len(shape.inputs) != 3 or min(shape.inputs[1:]) < pixels:
        raise ConfigError(
            "",
            model,
            f"needs images of at least {pixels}×{pixels} pixels, got shape {shape.inputs}",
        )
