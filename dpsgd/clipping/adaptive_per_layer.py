"""Adaptive clipping with a threshold for every layer or tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dpsgd.clipping.adaptive import Adaptive
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.per_layer import Allocation, allocated_scale
from dpsgd.clipping.rule import Granularity, State
from dpsgd.clipping.shares import bits_sensitivity, grown, query_share


@dataclass(frozen=True)
class AdaptivePerLayer(Adaptive):
    """w_g = min(1, C_g/n_g), where every C_g follows the γ-quantile of its group's norms.

    Source: He et al., ICLR 2023 (adaptive per-layer clipping). It starts from C_g = C_0/√G and
    moves each by C_g ← C_g·exp(−η(b̃_g−γ)), as :class:`Adaptive` does.

    Formal guarantee: gradient and G bits are one Gaussian release of multiplier σ. The G centred
    bits of a unit have L2 norm √G/2 and take ρ = G(σ/2σ_b)², with noise σ_b on each count; the
    gradient has scale γ_g·√(ΣC_j²/γ_j²)/√(1−ρ), recomputed as the thresholds move. A unit with
    n_g ≥ C_g everywhere fills the envelope. σ_b ≤ √G·σ/2 is refused.

    Fields: those of :class:`Adaptive`; ``noise`` as in per_layer; ``groups``, what a group is.
    """

    noise: Allocation
    groups: Literal["layer", "tensor"]

    @property
    def granularity(self) -> Granularity:
        """Return ``layer`` or ``tensor``, as configured."""
        return self.groups

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return C_0/√G for every group, its size d_g, and ρ; ConfigError if ρ ≥ 1."""
        count = len(groups)
        share = query_share(
            noise_multiplier, self.count_noise, expected_units, bits_sensitivity(count)
        )
        return {
            "threshold": torch.full((count,), self.norm / count**0.5, dtype=torch.float64),
            "size": torch.tensor(groups.sizes, dtype=torch.float64),
            "share": share,
        }

    def scale(self, state: State) -> Tensor:
        """Return γ_g·√(ΣC_j²/γ_j²)/√(1−ρ)."""
        return grown(allocated_scale(self.noise, state["threshold"], state["size"]), state["share"])

    def threshold(self, state: State) -> float:
        """Return √ΣC_g²."""
        return float(state["threshold"].square().sum().sqrt())
