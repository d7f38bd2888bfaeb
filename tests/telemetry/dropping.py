"""A model with dropout."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Dropping:
    """One layer behind a mask."""

    name: str

    def build(self, shape):
        size = int(torch.tensor(shape.inputs).prod())
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(size, shape.classes))
