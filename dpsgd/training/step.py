"""One step of DP-SGD, pure: gradients in, noised mean out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.checks import SLACK, check_units_apart
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.engine.gradients import UnitGradients
from dpsgd.errors import PrivacyError
from dpsgd.noise import check_positive, gaussian_noise, query_noise

SAFETY = 1 - 1e-5
"""Every weight is this much smaller, so that float32 rounding of a norm cannot exceed the bound."""


class NonFiniteError(PrivacyError):
    """The gradients of some units of a batch are not finite; ``positions`` says which."""

    def __init__(self, positions: list[int], message: str) -> None:
        self.positions = positions
        super().__init__(message)


@dataclass(frozen=True)
class Step:
    """What one step computed. ``mean``, ``noise`` and the noised ``answer`` ``[k]`` of the rule's
    queries are already divided by ``expected_units``.
    """

    norms: Tensor
    weights: Tensor
    mean: dict[str, Tensor]
    noise: dict[str, Tensor] | None
    answer: Tensor


def private_step(
    gradients: UnitGradients, rule: ClipRule, state: State, groups: Groups, info: Info, *,
    clipping: bool, noise_multiplier: float, expected_units: float, generator: torch.Generator,
) -> Step:  # fmt: skip
    """Return (Σ_u w_u∘g_u)/m and N(0, (σ·scale)²)/m, m = ``expected_units`` whatever was drawn, and
    the answer (Σ_u query_u + N(0, (σ·query_scale)²))/m, by which the caller may update the state.

    ``info`` holds each unit's own slice memberships ``[units, ...]``. ``clipping=False`` keeps
    every unit whole (a diagnostic). ``noise_multiplier`` σ = 0 draws no noise. Raises PrivacyError
    if a norm is not finite, a scale is not finite and positive, or the rule breaks its contract: a
    unit outside the declared envelope, or a weight that depends on other units.
    """
    norms = gradients.norms()
    check_finite(norms)
    query = rule.query(norms, state, info)
    weights = rule.weights(norms, state, info) if clipping else torch.ones_like(norms)
    if clipping and rule.bounded:
        check_units_apart(rule, state, norms, info, weights, query)
        check_envelope(rule, state, norms, weights, query)
    weights = weights * SAFETY if clipping else weights
    total = gradients.weighted_sum(weights)
    noise = None
    if noise_multiplier > 0:
        scale = rule.scale(state)
        check_positive("scale", scale, groups)
        noise = gaussian_noise(total, groups, noise_multiplier * scale, generator)
        noise = {name: value / expected_units for name, value in noise.items()}
    asked = query.double().sum(0)
    if noise_multiplier > 0 and len(asked):
        asked = asked + query_noise(asked, noise_multiplier * rule.query_scale(state), generator)
    mean = {name: value / expected_units for name, value in total.items()}
    return Step(norms, weights, mean, noise, asked / expected_units)


def check_envelope(
    rule: ClipRule, state: State, norms: Tensor, weights: Tensor, query: Tensor
) -> None:
    """Raise PrivacyError unless every weight is finite and ≥ 0 and every unit within the envelope
    Σ_g (w_g·n_g / scale_g)² + Σ_k (query_k / query_scale_k)² ≤ 1 of the rule.
    """
    if weights.shape != norms.shape:
        raise PrivacyError(
            f"clip={rule.name}: weights of shape {tuple(weights.shape)} for norms of shape "
            f"{tuple(norms.shape)}"
        )
    if not len(norms):
        return
    used = torch.square(weights.double() * norms / rule.scale(state).to(norms.device)).sum(-1)
    if query.shape[-1]:
        used += torch.square(query / rule.query_scale(state).to(norms.device)).sum(-1)
    # A weight that is not finite makes the sum infinite or NaN, which no comparison passes. What
    # float32 rounds here, the safety factor of the weights makes up for.
    if not (float(used.amax()) <= 1 + SLACK and float(weights.amin()) >= 0):
        raise PrivacyError(
            f"clip={rule.name}: a unit leaves the envelope that the rule declares (a weight is "
            "negative or not finite, or the envelope's left side is above 1): no noise of this run "
            "covers it"
        )


def check_finite(norms: Tensor) -> None:
    """Raise NonFiniteError naming the first unit of the batch whose norm is not finite."""
    bad = torch.nonzero(~torch.isfinite(norms).all(1)).flatten().tolist()
    if bad:
        raise NonFiniteError(
            bad,
            f"the gradient of {len(bad)} of {len(norms)} units in this batch is not finite, first "
            f"at position {bad[0]}",
        )
