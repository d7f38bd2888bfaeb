"""The optimizer: it sees the noised mean only, so that momentum and decay act after the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from dpsgd.errors import ConfigError

Mechanism = Literal["private", "clip_only", "noise_only", "neither"]
CLIPPED: tuple[Mechanism, ...] = ("private", "clip_only")
NOISED: tuple[Mechanism, ...] = ("private", "noise_only")


@dataclass(frozen=True)
class SGD:
    """SGD with momentum (``conf/optim/sgd.yaml``).

    ``lr_scale=by_norm`` divides the step by the clipping threshold, so that C is not a second
    learning rate. Gradients that are not clipped (mechanisms ``neither`` and ``noise_only``) use
    ``baseline_lr``, undivided.
    """

    name: str
    lr: float
    baseline_lr: float
    momentum: float
    lr_scale: Literal["by_norm", "fixed"]

    def __post_init__(self) -> None:
        for key in ("lr", "baseline_lr"):
            value = getattr(self, key)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(key, value, "must be a finite number above 0")
        if not 0 <= self.momentum < 1:
            raise ConfigError("momentum", self.momentum, "must be at least 0 and below 1")

    def build(self, model: nn.Module, mechanism: Mechanism) -> torch.optim.Optimizer:
        """Return the torch optimizer of the trainable parameters, fused: a third of the time."""
        parameters = [p for p in model.parameters() if p.requires_grad]
        lr = self.lr if mechanism in CLIPPED else self.baseline_lr
        return torch.optim.SGD(parameters, lr=lr, momentum=self.momentum, fused=True)

    def gradient_factor(self, mechanism: Mechanism, threshold: float) -> float:
        """Return what multiplies the mean gradient before the optimizer: 1/C under ``by_norm``."""
        if mechanism in CLIPPED and self.lr_scale == "by_norm" and math.isfinite(threshold):
            return 1 / threshold
        return 1.0

    def noise_factor(self, mechanism: Mechanism, threshold: float) -> float:
        """Return what multiplies the noise, so that ``noise_only`` moves the parameters by exactly
        the noise of the matching private cell although its learning rate is the baseline's.
        """
        if mechanism != "noise_only":
            return self.gradient_factor(mechanism, threshold)
        return self.gradient_factor("private", threshold) * self.lr / self.baseline_lr
