"""Group-wise clipping: a threshold for every layer or tensor."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import (
    ClipRule,
    Granularity,
    Info,
    State,
    Unit,
    check_norm,
    check_unit,
    clip_factor,
)
from dpsgd.errors import ConfigError, did_you_mean

Allocation = Literal["global", "equal_budget", "weighted"]


@dataclass(frozen=True)
class PerLayer(ClipRule):
    """w_g = min(1, C_g/n_g) in every clip group g.

    Thresholds (McMahan et al., ICLR 2018): ``uniform`` C_g = C/√G; ``by_dimension``
    C_g = C·√(d_g/Σd), with d_g the number of parameters of group g; or ``norms``, which names every
    group's C_g. In each case √ΣC_g² bounds the whole contribution.

    Noise (He et al., ICLR 2023): scale_g = γ_g·√(Σ_j C_j²/γ_j²), with γ_g = 1 (``global``),
    C_g (``equal_budget``) or C_g/√d_g (``weighted``).
    """

    name: str
    unit: Unit
    norm: float | None
    thresholds: Literal["uniform", "by_dimension"]
    norms: Mapping[str, float] | None
    noise: Allocation
    groups: Literal["layer", "tensor"]

    def __post_init__(self) -> None:
        check_unit(self.unit)
        if (self.norm is None) == (self.norms is None):
            raise ConfigError(
                "norm", self.norm, "give exactly one of clip.norm and clip.norms",
                "for a threshold a layer: clip.norm=null 'clip.norms={layer: C, ...}'",
            )  # fmt: skip
        if self.norm is not None:
            check_norm("norm", self.norm)
        for layer, value in (self.norms or {}).items():
            check_norm(f"norms.{layer}", value)

    @property
    def granularity(self) -> Granularity:
        """Return ``layer`` or ``tensor``, as configured."""
        return self.groups

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return thresholds and scales of these groups; ConfigError if ``norms`` names others."""
        thresholds = self._thresholds(groups)
        sizes = torch.tensor(groups.sizes, dtype=torch.float64)
        return {
            "threshold": thresholds,
            "scale": allocated_scale(self.noise, thresholds, sizes),
        }

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return min(1, C_g/n_g)."""
        return clip_factor(norms, state["threshold"])

    def scale(self, state: State) -> Tensor:
        """Return γ_g·√(ΣC_j²/γ_j²)."""
        return state["scale"]

    def threshold(self, state: State) -> float:
        """Return √ΣC_g²."""
        thresholds: list[float] = state["threshold"].tolist()
        return math.hypot(*thresholds)

    def _thresholds(self, groups: Groups) -> Tensor:
        if self.norms is not None:
            return self._named_thresholds(self.norms, groups)
        sizes = torch.tensor(groups.sizes, dtype=torch.float64)
        share = torch.ones_like(sizes) if self.thresholds == "uniform" else sizes
        return float(self.norm or 0.0) * (share / share.sum()).sqrt()

    @staticmethod
    def _named_thresholds(norms: Mapping[str, float], groups: Groups) -> Tensor:
        for name in norms:
            if name not in groups.names:
                raise ConfigError(
                    f"norms.{name}", norms[name],
                    f"no such clip group; this model has {', '.join(groups.names)}"
                    f"{did_you_mean(name, groups.names)}",
                )  # fmt: skip
        missing = [name for name in groups.names if name not in norms]
        if missing:
            raise ConfigError(
                "norms",
                dict(norms),
                f"every clip group needs a threshold; missing {', '.join(missing)}",
            )
        return torch.tensor([norms[name] for name in groups.names], dtype=torch.float64)


def allocated_scale(noise: Allocation, thresholds: Tensor, sizes: Tensor) -> Tensor:
    """Return the scales ``[groups]`` under one of the three allocations of noise.

    ``thresholds`` and ``sizes``, the parameter counts, are ``[groups]`` too.
    """
    gamma = {
        "global": torch.ones_like(thresholds),
        "equal_budget": thresholds,
        "weighted": thresholds / sizes.sqrt(),
    }[noise]
    return group_scale(thresholds, gamma)


def group_scale(thresholds: Tensor, gamma: Tensor) -> Tensor:
    """Return scale_g = γ_g·√(Σ_j C_j²/γ_j²), which makes Σ_g (C_g/scale_g)² = 1."""
    return gamma * (thresholds / gamma).square().sum().sqrt()
