"""Global clipping whose bound follows the largest norms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import (
    Info,
    State,
    check_above_zero,
    check_not_negative,
    clip_factor,
    ratio,
)
from dpsgd.clipping.shares import (
    bits_sensitivity,
    centred,
    check_count_noise,
    grown,
    query_scale,
    query_share,
    within_range,
)


@dataclass(frozen=True)
class GlobalAdapt(OneGroup):
    """w = C/Z_t if n ≤ Z_t, else min(1, C/n).

    Source: DPSGD-Global-Adapt; Esipova et al., ICLR 2023. Every unit answers 1[n > τZ_t]; from the
    noised mean b̃ of the step, Z ← Z·exp(−η_Z + b̃): Z settles where a part η_Z is above τZ.

    Formal guarantee: gradient and bit are one Gaussian release of multiplier σ. The bit is asked as
    1[n > τZ] − ½ and takes ρ = (σ/2σ_b)² (the authors' is not centred and takes (σ/σ_b)²); the
    gradient's scale is C/√(1−ρ). Units with n = Z, or n > Z and n ≥ C, fill the envelope.
    σ_b ≤ σ/2 is refused.

    Fields: ``norm`` C; ``bound`` Z_0 > 0, ``tau`` τ > 0, ``rate`` η_Z ≥ 0; ``count_noise`` σ_b on
    the count of a batch (null: 5 % of the expected units).
    """

    bound: float
    tau: float
    rate: float
    count_noise: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero("bound", self.bound)
        check_above_zero("tau", self.tau)
        check_not_negative("rate", self.rate)
        check_count_noise(self.count_noise)

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return C, Z_0 and ρ; ConfigError if ρ ≥ 1, ValueError for more than one clip group."""
        return {
            **super().bind(groups, noise_multiplier, expected_units),
            "bound": torch.tensor([self.bound], dtype=torch.float64),
            "share": query_share(
                noise_multiplier, self.count_noise, expected_units, bits_sensitivity(1)
            ),
        }

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return C/Z if n ≤ Z, else min(1, C/n)."""
        bound = state["bound"].to(norms.device)
        below = ratio(state["threshold"], bound, norms)
        above = clip_factor(norms, state["threshold"])
        return torch.where(norms.double() <= bound, below, above)

    def scale(self, state: State) -> Tensor:
        """Return C/√(1−ρ)."""
        return grown(state["threshold"], state["share"])

    def query(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return 1[n > τZ] − ½."""
        return centred(norms.double() > self.tau * state["bound"].to(norms.device), norms)

    def query_scale(self, state: State) -> Tensor:
        """Return ½/√ρ."""
        return query_scale(state["share"], bits_sensitivity(1))

    def update(self, state: State, answer: Tensor) -> State:
        """Return the state with Z·exp(−η_Z + b̃), b̃ = answer + ½."""
        above = answer.to(state["bound"]) + 0.5
        moved = state["bound"] * torch.exp(above - self.rate)
        return {**state, "bound": within_range(moved)}
