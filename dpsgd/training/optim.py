"""The optimizer: it sees the noised mean only, so that momentum acts after the noise."""

# pyright: reportPrivateUsage=false
# (torch calls its operations on lists of tensors private)

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dpsgd.errors import ConfigError
from dpsgd.flattened import Flattened, empty

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

    def build(self, trained: Mapping[str, Tensor], mechanism: Mechanism) -> Descent:
        """Return the optimizer of the trainable parameters."""
        lr = self.lr if mechanism in CLIPPED else self.baseline_lr
        return Descent(trained, lr, self.momentum)

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


class Descent:
    """v ← μ·v + update, w ← w − lr·v: what ``torch.optim.SGD`` does, in a handful of operations on
    all parameters at once. On small models its own took a sixth of a private step.
    """

    def __init__(self, trained: Mapping[str, Tensor], lr: float, momentum: float) -> None:
        self._parameters = {n: p.detach() for n, p in trained.items()}  # same memory
        self._velocity = empty(self._parameters)
        self._velocity.vector.zero_()
        self._names, self._tensors = list(self._parameters), list(self._parameters.values())
        self._lr, self._momentum = lr, momentum

    def step(
        self, mean: Mapping[str, Tensor], noise: Flattened | None, mean_factor: float,
        noise_factor: float,
    ) -> None:  # fmt: skip
        """Take one step by mean_factor·mean + noise_factor·noise, both by parameter name.

        Raises ValueError unless the noise is of these parameters, in their order.
        """
        velocity = self._velocity
        if noise is not None and [*noise.like] != self._names:
            raise ValueError(f"noise of {[*noise]} for the parameters {[*velocity]}")
        if noise is not None and noise_factor == 1.0:  # once over the memory instead of twice
            held = velocity.vector
            torch.add(noise.vector, held, alpha=self._momentum, out=held)
        else:
            velocity.vector.mul_(self._momentum)
            if noise is not None:
                velocity.vector.add_(noise.vector, alpha=noise_factor)
        ordered = [mean[name] for name in self._names]
        torch._foreach_add_(velocity.parts, ordered, alpha=mean_factor)
        torch._foreach_add_(self._tensors, velocity.parts, alpha=-self._lr)

    def state(self) -> dict[str, Tensor]:
        """Return a copy of the velocity, by parameter name, on the CPU."""
        return {name: value.cpu().clone() for name, value in self._velocity.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the velocity of ``state``."""
        for name, value in self._velocity.items():
            value.copy_(state[name])
