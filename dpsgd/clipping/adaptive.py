"""Adaptive clipping: the threshold follows a quantile of the norms."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import Info, State, check_not_negative, clip_factor
from dpsgd.clipping.shares import (
    bits_sensitivity,
    centred,
    check_count_noise,
    check_quantile,
    grown,
    query_scale,
    query_share,
    towards_quantile,
)


@dataclass(frozen=True)
class Adaptive(OneGroup):
    """w = min(1, C_t/n), where C_t follows the γ-quantile of the norms.

    Source: Andrew et al., NeurIPS 2021, Algorithm 1 and Theorem 1.

    Every unit answers b = 1[n ≤ C_t]; from the noised mean b̃ of the step, clamped to [0, 1],
    C ← C·exp(−η(b̃−γ)).

    Formal guarantee: gradient and bit are one Gaussian release of multiplier σ. The bit is asked as
    b − ½ and takes ρ = (σ/2σ_b)²; the gradient's scale is C_t/√(1−ρ). A unit fills the envelope if
    n ≥ C_t. σ_b ≤ σ/2 is refused.

    Fields: ``norm`` C_0 > 0, ``quantile`` γ in (0, 1), ``rate`` η ≥ 0 (0 keeps C_0 but still pays
    for the bit), ``count_noise`` σ_b on the count of a batch (null: 5 % of the expected units).
    """

    quantile: float
    rate: float
    count_noise: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_quantile(self.quantile)
        check_not_negative("rate", self.rate)
        check_count_noise(self.count_noise)

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return C_0 and ρ; ConfigError if ρ ≥ 1, ValueError for more than one clip group."""
        share = query_share(noise_multiplier, self.count_noise, expected_units, bits_sensitivity(1))
        return {**super().bind(groups, noise_multiplier, expected_units), "share": share}

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return min(1, C_t/n)."""
        return clip_factor(norms, state["threshold"])

    def scale(self, state: State) -> Tensor:
        """Return C_t/√(1−ρ)."""
        return grown(state["threshold"], state["share"])

    def query(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return 1[n ≤ C_t] − ½, compared in float64 as C is."""
        return centred(norms <= state["threshold"].to(norms.device), norms)

    def query_scale(self, state: State) -> Tensor:
        """Return (√G/2)/√ρ, with one bit for each of G thresholds."""
        return query_scale(state["share"], bits_sensitivity(len(state["threshold"])))

    def update(self, state: State, answer: Tensor) -> State:
        """Return the state with C·exp(−η(b̃−γ))."""
        moved = towards_quantile(state["threshold"], answer, self.rate, self.quantile)
        return {**state, "threshold": moved}
