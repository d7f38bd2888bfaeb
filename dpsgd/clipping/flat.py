"""Flat clipping: one threshold for the whole gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import Info, State, clip_factor


@dataclass(frozen=True)
class Flat(OneGroup):
    """w = min(1, C/n), scale C (Abadi et al., CCS 2016, Algorithm 1).

    With ``unit: user`` the norm is that of the sum of a user's records, which is user-level DP-SGD
    (McMahan et al., ICLR 2018; Charles et al., arXiv 2407.07737). A unit with n ≥ C fills the
    envelope.
    """

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return min(1, C/n)."""
        return clip_factor(norms, state["threshold"])
