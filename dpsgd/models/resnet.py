"""A small residual network that looks at one image at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from dpsgd.errors import ConfigError
from dpsgd.models.images import ACTIVATIONS, Activation, need_images
from dpsgd.models.shape import DataShape


@dataclass(frozen=True)
class ResNetGN:
    """Residual network (He et al., CVPR 2016) with group normalisation (Wu & He, ECCV 2018).

    Attributes:
        channels: width of each stage; every stage but the first halves height and width.
        blocks: residual blocks in each stage.
        groups: groups of channels that are normalised together; divides every width.
        activation: after each normalisation.

    """

    name: str
    channels: Sequence[int]
    blocks: int
    groups: int
    activation: Activation

    def __post_init__(self) -> None:
        if self.blocks < 1:
            raise ConfigError("blocks", self.blocks, "must be at least 1 a stage")
        if self.groups < 1:
            raise ConfigError("groups", self.groups, "must be at least 1")
        if not self.channels or any(c < 1 or c % self.groups for c in self.channels):
            raise ConfigError(
                "channels", list(self.channels),
                f"needs one width a stage, each a multiple of groups={self.groups}",
            )  # fmt: skip

    def build(self, shape: DataShape) -> nn.Module:
        """3×3 stem, stages of blocks, mean over pixels, one linear layer."""
        need_images(shape, self.name, 2 ** (len(self.channels) - 1))
        before = self.channels[0]
        layers: list[nn.Module] = [
            nn.Conv2d(shape.inputs[0], before, 3, padding=1, bias=False),
            nn.GroupNorm(self.groups, before),
            ACTIVATIONS[self.activation](),
        ]
        for stage, width in enumerate(self.channels):
            for block in range(self.blocks):
                stride = 2 if stage and not block else 1
                layers.append(_Block(before, width, stride, self.groups, self.activation))
                before = width
        pool = nn.AdaptiveAvgPool2d(1)
        return nn.Sequential(*layers, pool, nn.Flatten(), nn.Linear(before, shape.classes))


class _Block(nn.Module):
    """act(F(x) + x), F two normalised 3×3 convolutions; a 1×1 one fits x where shapes differ."""

    def __init__(
        self, before: int, width: int, stride: int, groups: int, activation: Activation
    ) -> None:
        super().__init__()
        act = ACTIVATIONS[activation]
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
            nn.GroupNorm(groups, width),
            act(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(groups, width),
        )
        same = before == width and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(before, width, 1, stride, bias=False)
        self.act = act()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.skip(x))
