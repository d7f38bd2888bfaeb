"""A threshold for every group of a declared partition of the units."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import Info, State, clip_factor
from dpsgd.clipping.shares import check_count_noise, grown, query_scale, query_share

SENSITIVITY = 1.0
"""A unit answers with one 1, in the column of its group and side of C: L2 norm 1."""


@dataclass(frozen=True)
class GroupThresholds(OneGroup):
    """w = min(1, C_k/n) for the unit's group k (DPSGD-F; Xu et al., KDD 2021).

    Every unit counts once, in m_k if n > C and in o_k if n ≤ C. From the noised counts of the step,
    clamped at 0, r_k = m̃_k/(m̃_k+õ_k) (1 at 0/0), and the next step has C_k = C(1 + r_k/mean r);
    the ratio is 1 if every r_k is 0, as for all groups alike. The first step has C for all.

    Formal guarantee: gradient and 2K counts are one Gaussian release of multiplier σ. The counts
    take ρ = (σ/σ_b)², and the gradient's scale is max_k C_k/√(1−ρ) over *all* groups: over those
    in the batch it would say who is in the batch, and fall short when a missing group's unit is
    added. A unit of the largest C_k with n ≥ C_k fills the envelope. σ_b ≤ σ is refused.

    It holds for every ``info``: a unit in several groups (a user may be) counts 1/j in each of its
    j groups and has their mean threshold; one in none is not counted and has C.

    Fields: ``norm`` C; ``slice_kind``, the key of ``slices.kinds`` that partitions the units;
    ``count_noise`` σ_b on every count of a batch (null: 5 % of the expected units).
    """

    slice_kind: str
    count_noise: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count_noise(self.count_noise)

    @property
    def partition(self) -> str:
        """Return ``slice_kind``, as configured."""
        return self.slice_kind

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return C for all, and ρ; ConfigError if ρ ≥ 1, ValueError for several clip groups."""
        share = query_share(noise_multiplier, self.count_noise, expected_units, SENSITIVITY)
        return {**super().bind(groups, noise_multiplier, expected_units), "share": share}

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return min(1, C_k/n)."""
        part = self._part(norms, info)
        own = (part * state["threshold"].to(norms.device)).sum(-1, keepdim=True)
        in_none = part.sum(-1, keepdim=True) == 0
        return clip_factor(norms, torch.where(in_none, self.norm, own))

    def scale(self, state: State) -> Tensor:
        """Return max C_k/√(1−ρ)."""
        return grown(state["threshold"].max().reshape(1), state["share"])

    def threshold(self, state: State) -> float:
        """Return max C_k."""
        return float(state["threshold"].max())

    def query(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return the unit's part in m (K columns), then in o (K columns)."""
        part = self._part(norms, info)
        over = (norms.double() > self.norm).to(part.dtype)
        return torch.cat([part * over, part * (1 - over)], dim=-1).to(norms.dtype)

    def query_scale(self, state: State) -> Tensor:
        """Return 1/√ρ, for all columns."""
        return query_scale(state["share"], SENSITIVITY)

    def update(self, state: State, answer: Tensor) -> State:
        """Return the state with C_k = C(1 + r_k/mean r)."""
        over, under = answer.to(state["threshold"]).clamp(min=0.0).chunk(2)
        counted = over + under
        rate = torch.where(counted > 0, over / counted, 1.0)
        mean = rate.mean()
        relative = torch.where(mean > 0, rate / mean, 1.0)
        return {**state, "threshold": self.norm * (1 + relative)}

    def _part(self, norms: Tensor, info: Info) -> Tensor:
        """Return ``[..., K]`` memberships that add up to 1, or to 0 for a unit in no group."""
        member = (info[self.slice_kind] != 0).to(norms.device, torch.float64)
        return member / member.sum(-1, keepdim=True).clamp(min=1.0)
