"""The left side of the envelope contract, for tests and for the check before training."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd.clipping.rule import ClipRule, Info, State


def envelope(rule: ClipRule, norms: Tensor, state: State, info: Info) -> Tensor:
    """Return Σ_g (w_g·n_g / scale_g)² + Σ_k (query_k / query_scale_k)² of every row of ``norms``
    ``[..., groups]``, in float64.

    A rule keeps its contract if no value exceeds 1 (up to rounding).
    """
    norms = norms.double()
    contribution = rule.weights(norms, state, info) * norms
    query = rule.query(norms, state, info)
    asked = torch.square(query / rule.query_scale(state)).sum(-1) if query.shape[-1] else 0.0
    return torch.square(contribution / rule.scale(state)).sum(-1) + asked
