"""Models for images ``[n, channels, height, width]``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal, Protocol

from torch import nn

from dpsgd.errors import ConfigError

Activation = Literal["tanh", "relu"]
_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class ModelSource(Protocol):
    """Settings that build a model for inputs of one shape."""

    @property
    def name(self) -> str:
        """The word that labels, tables and pictures use."""
        ...

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return a module that maps ``[n, *input_shape]`` to logits ``[n, classes]``."""
        ...


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression on the pixels."""

    name: str

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        """Flatten, then one linear layer."""
        return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), classes))


@dataclass(frozen=True)
class MLP:
    """Fully connected layers of the given widths."""

    name: str
    hidden: Sequence[int]
    activation: Activation

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError("hidden", list(self.hidden), "needs one width above 0 a layer")

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        """Flatten, then linear layers with the activation between them."""
        widths = [prod(input_shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), _ACTIVATIONS[self.activation]()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


@dataclass(frozen=True)
class CNN:
    """Two 3×3 convolutions with max pooling, tanh, one hidden layer.

    Tanh bounds the activations, which suits clipped gradients (Papernot et al., AAAI 2021).
    """

    name: str
    channels: tuple[int, int]
    hidden: int
    activation: Activation

    def build(self, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        """Convolve, pool, twice; then two linear layers."""
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise ConfigError(
                "", self.name, f"needs images of at least 4×4 pixels, got shape {input_shape}"
            )
        act = _ACTIVATIONS[self.activation]
        first, second = self.channels
        flat = second * (input_shape[1] // 4) * (input_shape[2] // 4)
        return nn.Sequential(
            nn.Conv2d(input_shape[0], first, 3, padding=1), act(), nn.MaxPool2d(2),
            nn.Conv2d(first, second, 3, padding=1), act(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(flat, self.hidden), act(), nn.Linear(self.hidden, classes),
        )  # fmt: skip
