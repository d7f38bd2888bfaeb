"""One step of DP-SGD, pure: gradients in, noised mean out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd.clipping.checks import check_units_apart
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import NOTHING_ASKED, ClipRule, Info, State
from dpsgd.engine.gradients import UnitGradients
from dpsgd.errors import PrivacyError
from dpsgd.flattened import Flattened
from dpsgd.noise import check_positive, gaussian_noise, query_noise
from dpsgd.sources import Source
from dpsgd.training.sums import SAFETY, NonFinite, NonFiniteError, unit_sums

__all__ = ["SAFETY", "NonFiniteError", "Step", "private_step"]


class Step(NamedTuple):
    """What one step computed. ``mean``, ``noise`` and the noised ``answer`` ``[k]`` of the rule's
    queries are already divided by ``expected_units``.

    ``losses`` ``[rows]`` are raw. ``dropped`` are the positions of the units left out; their norms
    and weights are 0. ``raw`` is Σ_u g_u, if it was asked for.
    """

    norms: Tensor
    weights: Tensor
    mean: dict[str, Tensor]
    noise: Flattened | None
    answer: Tensor
    losses: Tensor
    dropped: list[int]
    raw: dict[str, Tensor] | None


def private_step(  # noqa: PLR0913  (pure: all that it knows is an argument)
    batches: Iterable[UnitGradients], rule: ClipRule, state: State, groups: Groups, info: Info, *,
    clipping: bool, noise_multiplier: float, expected_units: float, generator: Source,
    non_finite: NonFinite = "stop", raw: bool = False, check_apart: bool = True,
) -> Step:  # fmt: skip
    """Return (Σ_u w_u∘g_u)/m and N(0, (σ·scale)²)/m, m = ``expected_units`` whatever was drawn, and
    the answer (Σ_u query_u + N(0, (σ·query_scale)²))/m, by which the caller may update the state.

    ``batches`` are the draw's micro-batches, at least one, each with whole units; they may be
    captured only as they are asked for. Noise is added once, to the sum over all of them.
    ``info`` holds each unit's own slice memberships ``[units, ...]``. ``clipping=False`` keeps
    every unit whole (a diagnostic). ``noise_multiplier`` σ = 0 draws no noise.

    ``non_finite=drop`` leaves out a unit whose norm is not finite: its contribution is 0. Whether
    that happens depends on the unit's own gradient alone, and 0 is inside every envelope, so that
    the sensitivity, and ε with it, is what it was. ``stop`` raises instead, which is seen outside.

    ``check_apart`` False trusts a rule to look at one unit at a time, as tests have shown.

    Raises PrivacyError if a norm is not finite under ``stop``, a scale is not finite and positive,
    or the rule breaks its contract: a unit outside the declared envelope, or a weight that depends
    on other units.
    """
    scale, query_scale = rule.scale(state), rule.query_scale(state)
    sums = unit_sums(batches, rule, state, info, scales=(scale, query_scale), clipping=clipping,
                     non_finite=non_finite, expected_units=expected_units, raw=raw)  # fmt: skip
    if not sums.norms:
        raise PrivacyError("a step needs one micro-batch at least: that of an empty draw is empty")
    norms, weights = _whole(sums.norms), _whole(sums.weights)
    query = _whole(sums.queries) if sums.queries else None
    if clipping and rule.bounded and check_apart:
        # Every unit's answer beside those of half of all units: a rule that looks at its neighbours
        # is found, wherever the draw was split.
        left, answered, *own = _taken(sums.dropped, norms, weights, *info.values())
        asked = None if query is None else _taken(sums.dropped, query)[0]
        check_units_apart(rule, state, left, dict(zip(info, own, strict=True)), answered, asked)
    noise = None
    if noise_multiplier > 0:
        scales = check_positive("scale", scale, groups)
        std = [noise_multiplier * value / expected_units for value in scales]
        noise = gaussian_noise(sums.mean, groups, std, generator)
    return Step(
        norms, weights * SAFETY if clipping else weights,
        sums.mean, noise,
        _asked(query, query_scale, noise_multiplier, generator, expected_units),
        _whole(sums.losses), sums.dropped, sums.raw if raw else None,
    )  # fmt: skip


def _asked(
    query: Tensor | None, query_scale: Tensor, noise_multiplier: float, generator: Source,
    expected_units: float,
) -> Tensor:  # fmt: skip
    """Return (Σ_u query_u + N(0, (σ·query_scale)²))/m ``[k]``, drawn after the gradient's noise."""
    if query is None:
        return NOTHING_ASKED
    total = query.sum(0, dtype=torch.float64)
    if noise_multiplier > 0:
        std = [noise_multiplier * scale for scale in query_scale.tolist()]
        total += query_noise(total, std, generator)
    return total.div_(expected_units)


def _whole(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _taken(dropped: list[int], *values: Tensor) -> tuple[Tensor, ...]:
    """Return ``values`` ``[units, ...]`` without the units that were dropped."""
    if not dropped:
        return values
    kept = torch.ones(len(values[0]), dtype=torch.bool)
    kept[dropped] = False
    return tuple(value[kept.to(value.device)] for value in values)
