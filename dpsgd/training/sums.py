"""What a draw's units add up to before any noise, one micro-batch after another."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.engine.gradients import UnitGradients
from dpsgd.errors import PrivacyError
from dpsgd.training.covered import Scales, check_envelope, surely_covered

SAFETY = 1 - 1e-5
"""Every weight is this much smaller, so that float32 rounding of a norm cannot exceed the bound."""

NonFinite: TypeAlias = Literal["stop", "drop"]
"""What is done about a unit whose gradient is not finite."""


class NonFiniteError(PrivacyError):
    """The gradients of some units of a draw are not finite; ``positions`` says which."""

    def __init__(self, positions: list[int], message: str) -> None:
        self.positions = positions
        super().__init__(message)


@dataclass
class Sums:
    """Norms, the rule's own weights (without ``SAFETY``) and queries by micro-batch, and the sums.

    A dropped unit has norms, weights and queries of zero.
    """

    norms: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    queries: list[Tensor] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    mean: dict[str, Tensor] = field(default_factory=dict)
    raw: dict[str, Tensor] = field(default_factory=dict)


def unit_sums(
    batches: Iterable[UnitGradients], rule: ClipRule, state: State, info: Info, *,
    scales: Scales, clipping: bool, non_finite: NonFinite, expected_units: float,
    raw: bool,
) -> Sums:  # fmt: skip
    """Return (Σ_u w_u∘g_u)/m over all units of ``batches``, m = ``expected_units``, and with
    ``raw`` Σ_u g_u too. ``scales`` are the rule's scale and query_scale in this ``state``.

    A rule acts on one unit at a time, so that the sum over micro-batches is that of the whole draw.
    Each micro-batch is let go before the next is asked for. Raises NonFiniteError, with positions
    in the whole draw, unless ``non_finite`` is ``drop``, and PrivacyError for a unit outside the
    envelope that the rule declares.
    """
    sums = Sums()
    share = (SAFETY if clipping else 1.0) / expected_units
    asks = scales[1].shape[-1] > 0
    checked = clipping and rule.bounded
    units = 0
    for gradients in batches:
        gradients, norms, gone = _finite(gradients, non_finite, units)  # noqa: PLW2901  (the raw batch must not stay alive)
        end = units + norms.shape[0]
        beside = {key: value[units:end] for key, value in info.items()}
        weights = rule.weights(norms, state, beside) if clipping else torch.ones_like(norms)
        query = rule.query(norms, state, beside) if asks else None
        if checked and not surely_covered(scales, norms, weights, query):
            check_envelope(rule.name, scales, norms, weights, query)
        weights = _zeroed(weights, gone)
        sums.mean = _added(sums.mean, gradients.weighted_sum(weights * share))
        if raw:
            sums.raw = _added(sums.raw, gradients.weighted_sum(torch.ones_like(norms)))
        sums.norms.append(norms)
        sums.weights.append(weights)
        if query is not None:
            sums.queries.append(_zeroed(query, gone))
        sums.losses.append(gradients.losses)
        sums.dropped += [units + i for i in gone]
        units = end
        del gradients  # before the next is captured: one at a time is in memory
    return sums


def _finite(
    gradients: UnitGradients, non_finite: NonFinite, first: int
) -> tuple[UnitGradients, Tensor, list[int]]:
    """Return gradients and norms without the units that are not finite, and those positions."""
    norms = gradients.norms()
    if _all_finite(norms):
        return gradients, norms, []
    bad: list[int] = torch.nonzero(~torch.isfinite(norms).all(1)).flatten().tolist()
    if non_finite == "stop":
        raise NonFiniteError(
            [first + i for i in bad],
            f"the gradient of {len(bad)} of {len(norms)} units in this batch is not finite, first "
            f"at position {first + bad[0]}",
        )
    dropped = torch.zeros(len(norms), dtype=torch.bool, device=norms.device)
    dropped[bad] = True
    return gradients.without(dropped), _zeroed(norms, bad), bad


def _all_finite(norms: Tensor) -> bool:
    return not norms.numel() or math.isfinite(norms.max())  # a NaN is the largest of all


def _zeroed(values: Tensor, rows: list[int]) -> Tensor:
    """Return ``values`` ``[units, ...]`` with these rows 0: not by a product, 0·∞ is not 0."""
    if not rows:
        return values
    values = values.clone()
    values[rows] = 0.0
    return values


def _added(total: dict[str, Tensor], more: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: total[name] + value for name, value in more.items()} if total else more
