"""Whether the noise of a step covers what every unit contributes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from dpsgd.clipping.checks import SLACK
from dpsgd.errors import PrivacyError

Scales: TypeAlias = tuple[Tensor, Tensor]
"""A rule's scale ``[groups]`` and query_scale, ``[k]`` or ``[1]`` for all queries."""


def surely_covered(scales: Scales, norms: Tensor, weights: Tensor, query: Tensor | None) -> bool:
    """Whether it is plain that ``check_envelope`` raises nothing; False leaves it open.

    The extremes of every column, of whichever unit, stand for all units: if they are inside the
    envelope together, so is each unit. A weight that is not finite makes a product that is not,
    even with 0, and a product above 0 is a weight above 0; one of 0 says nothing of its weight.
    """
    if weights.shape != norms.shape or not norms.shape[0]:
        return False
    filled = _filled(weights * norms, scales[0].tolist(), lowest=0.0)
    if query is not None:
        asked = scales[1].tolist()
        if query.shape[1] > norms.shape[1]:
            return False  # a unit has its part in a few of many columns, and no column is telling
        filled += _filled(query, asked * query.shape[1] if len(asked) == 1 else asked)
    return filled <= (1 + SLACK) ** 2  # not if NaN


def check_envelope(
    name: str, scales: Scales, norms: Tensor, weights: Tensor, query: Tensor | None
) -> None:
    """Raise PrivacyError unless every weight is finite and ≥ 0 and every unit within the envelope
    Σ_g (w_g·n_g / scale_g)² + Σ_k (query_k / query_scale_k)² ≤ 1 of the rule called ``name``.
    """
    if weights.shape != norms.shape:
        raise PrivacyError(
            f"clip={name}: weights of shape {tuple(weights.shape)} for norms of shape "
            f"{tuple(norms.shape)}"
        )
    if not norms.shape[0]:
        return
    parts = weights * norms / scales[0].to(norms)
    if query is not None:
        parts = torch.cat([parts, query / scales[1].to(query)], dim=1)
    lengths = torch.linalg.vector_norm(parts, dim=1)
    low, high = float(torch.aminmax(weights)[0]), float(torch.aminmax(lengths)[1])
    # A weight that is not finite makes these infinite or NaN, which no comparison passes. What
    # float32 rounds here, the safety factor of the weights makes up for.
    if not (high <= 1 + SLACK and low >= 0):
        raise PrivacyError(
            f"clip={name}: a unit leaves the envelope that the rule declares (a weight is "
            "negative or not finite, or the envelope's left side is above 1): no noise of this run "
            "covers it"
        )


def _filled(values: Tensor, scales: Sequence[float], lowest: float = -float("inf")) -> float:
    """Return Σ over the columns of ``values`` ``[units, columns]`` of (largest |value| / scale)²;
    NaN if one is not a number or not above ``lowest``, or a scale is not above 0.
    """
    columns = values.shape[1]
    low, high = torch.aminmax(values)
    filled = _sum_of_parts([(float(low), float(high))] * columns, scales, lowest)
    if columns == 1 or filled <= 1 + SLACK:  # the extremes of all columns will do, and are cheaper
        return filled
    lows, highs = torch.aminmax(values, dim=0)
    return _sum_of_parts(list(zip(lows.tolist(), highs.tolist(), strict=True)), scales, lowest)


def _sum_of_parts(
    extremes: Sequence[tuple[float, float]], scales: Sequence[float], lowest: float
) -> float:
    if len(extremes) != len(scales):
        return float("nan")
    filled = 0.0
    for (low, high), scale in zip(extremes, scales, strict=True):
        if not (low > lowest and scale > 0):
            return float("nan")
        part = max(-low, high) / scale  # both are NaN if one value is
        filled += part * part
    return filled
