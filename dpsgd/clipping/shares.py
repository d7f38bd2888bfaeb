"""The rules that ask: the share of their queries, centred bits, and how a threshold moves.

A rule whose queries have L2 sensitivity Δ and shall get noise σ_b on every sum spends

    ρ = (σ·Δ/σ_b)²

of its envelope on them: query_scale = Δ/√ρ gives Σ(query/query_scale)² ≤ ρ and noise σ·Δ/√ρ = σ_b,
and the gradient keeps 1 − ρ by scales that grow by 1/√(1−ρ). For G centred bits, Δ = √G/2, and with
G = 1 this is Andrew et al.'s z_Δ = (z⁻² − (2σ_b)⁻²)^(−½) = σ/√(1−ρ) (NeurIPS 2021, Theorem 1).

Shares compose. Whatever takes a share s of the noise beside a rule binds that rule with
σ/√(1−s) and grows every scale of it, those of its queries included, by 1/√(1−s): the rule then
fills at most 1 − s, and its counts still get noise σ_b.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from dpsgd.clipping.rule import check_above_zero, filled
from dpsgd.errors import ConfigError

COUNT_NOISE_SHARE = 0.05
"""σ_b as a part of ``expected_units`` where none is configured (Andrew et al. 2021)."""

SMALLEST, LARGEST = 1e-30, 1e30
"""A moved threshold stays between, so that no scale becomes 0 or ∞ in float32."""

_LARGEST_POWER = 700.0
"""e to this is finite, and moves any threshold out of that range."""


def check_count_noise(count_noise: float | None) -> None:
    """Raise ConfigError unless ``count_noise`` σ_b is null, or finite and above 0."""
    if count_noise is not None:
        check_above_zero("count_noise", count_noise)


def check_quantile(quantile: float) -> None:
    """Raise ConfigError unless 0 < ``quantile`` < 1."""
    if not 0 < quantile < 1:
        raise ConfigError("quantile", quantile, "must be above 0 and below 1")


def query_share(
    noise_multiplier: float, count_noise: float | None, expected_units: float, sensitivity: float
) -> Tensor:
    """Return ρ = (σ·Δ/σ_b)² as a float64 ``[1]``, for queries of L2 sensitivity Δ.

    ``count_noise`` σ_b is the noise on a query's sum; null takes 5 % of ``expected_units``. Raises
    ConfigError naming σ and σ_b if ρ ≥ 1: the questions alone would then need more noise than σ_b.
    """
    sigma_b = COUNT_NOISE_SHARE * expected_units if count_noise is None else count_noise
    least = noise_multiplier * sensitivity
    share = (least / sigma_b) ** 2
    if not share < 1:
        derived = f", which is 5 % of {expected_units:g} units" if count_noise is None else ""
        raise ConfigError(
            "count_noise", count_noise,
            f"must be above {least:g}, since noise_multiplier σ = {noise_multiplier:g} and "
            f"count noise σ_b = {sigma_b:g}{derived}",
            "give a larger clip.count_noise, a larger batch, or a larger epsilon",
        )  # fmt: skip
    return torch.tensor([share], dtype=torch.float64)


def query_scale(share: Tensor, sensitivity: float) -> Tensor:
    """Return Δ/√ρ ``[1]``: ∞ for ρ = 0, when σ = 0 and no noise is drawn."""
    return _query_scale(float(share), sensitivity)


@lru_cache(maxsize=64)
def _query_scale(share: float, sensitivity: float) -> Tensor:
    return torch.tensor(
        [sensitivity / math.sqrt(share) if share else math.inf], dtype=torch.float64
    )


def grown(scale: Tensor, share: Tensor) -> Tensor:
    """Return scale/√(1−ρ), which leaves the share ρ to the queries."""
    return scale / math.sqrt(1 - float(share))


def bits_sensitivity(bits: int) -> float:
    """Return √G/2, the L2 norm of G centred bits."""
    return math.sqrt(bits) / 2


def centred(bits: Tensor, like: Tensor) -> Tensor:
    """Return ±½ for boolean ``bits``, in the dtype of ``like``.

    An uncentred 0/1 has twice the sensitivity, and the formula above would be wrong.
    """
    half = torch.add(bits, -0.5)
    return half if half.dtype == like.dtype else half.to(like.dtype)


def towards_quantile(threshold: Tensor, answer: Tensor, rate: float, quantile: float) -> Tensor:
    """Return C·exp(−η(b̃−γ)) elementwise, b̃ = clamp(answer + ½, 0, 1) (Andrew et al. 2021).

    ``answer`` is the noised sum of centred bits 1[n ≤ C] − ½ over the expected number of units.
    """
    # Numbers, not tensors: for the few thresholds that there are, it is quicker by far.
    before: list[float] = threshold.tolist()
    told: list[float] = answer.tolist()
    moved = [_towards(c, b, rate, quantile) for c, b in zip(before, told, strict=True)]
    return filled(moved, threshold.dtype, threshold.device)


def _towards(threshold: float, answer: float, rate: float, quantile: float) -> float:
    below = min(max(answer + 0.5, 0.0), 1.0)  # NaN stays NaN
    moved = threshold * math.exp(min(-rate * (below - quantile), _LARGEST_POWER))
    return min(max(moved, SMALLEST), LARGEST)


def within_range(threshold: Tensor) -> Tensor:
    """Return ``threshold`` kept between SMALLEST and LARGEST, which are public."""
    return threshold.clamp(SMALLEST, LARGEST)
