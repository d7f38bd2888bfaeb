"""One step of DP-SGD, pure: gradients in, noised mean out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, State
from dpsgd.engine.gradients import UnitGradients
from dpsgd.errors import PrivacyError
from dpsgd.noise import check_positive, gaussian_noise

SAFETY = 1 - 1e-5
"""Every weight is this much smaller, so that float32 rounding of a norm cannot exceed the bound."""


class NonFiniteError(PrivacyError):
    """The gradients of some units of a batch are not finite; ``positions`` says which."""

    def __init__(self, positions: list[int], message: str) -> None:
        self.positions = positions
        super().__init__(message)


@dataclass(frozen=True)
class Step:
    """What one step computed. ``mean`` and ``noise`` are already divided by ``expected_units``."""

    norms: Tensor
    weights: Tensor
    mean: dict[str, Tensor]
    noise: dict[str, Tensor] | None


def private_step(
    gradients: UnitGradients, rule: ClipRule, state: State, groups: Groups, *,
    clipping: bool, noise_multiplier: float, expected_units: float, generator: torch.Generator,
) -> Step:  # fmt: skip
    """Return (Σ_u w_u∘g_u)/m and N(0, (σ·scale)²)/m, m = ``expected_units`` whatever was drawn.

    ``clipping=False`` keeps every unit whole (a diagnostic). ``noise_multiplier`` σ = 0 draws no
    noise. Raises PrivacyError if a norm is not finite, or a scale is not finite and positive.
    """
    norms = gradients.norms()
    check_finite(norms)
    weights = rule.weights(norms, state, {}) * SAFETY if clipping else torch.ones_like(norms)
    total = gradients.weighted_sum(weights)
    noise = None
    if noise_multiplier > 0:
        scale = rule.scale(state)
        check_positive("scale", scale, groups)
        noise = gaussian_noise(total, groups, noise_multiplier * scale, generator)
        noise = {name: value / expected_units for name, value in noise.items()}
    return Step(norms, weights, {n: v / expected_units for n, v in total.items()}, noise)


def check_finite(norms: Tensor) -> None:
    """Raise PrivacyError naming the first unit of the batch whose norm is not finite."""
    bad = torch.nonzero(~torch.isfinite(norms).all(1)).flatten().tolist()
    if bad:
        raise NonFiniteError(
            bad,
            f"the gradient of {len(bad)} of {len(norms)} units in this batch is not finite, first "
            f"at position {bad[0]}",
        )
