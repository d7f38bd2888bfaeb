"""What a clipping rule is: one unit's norms to one unit's weights, with a declared envelope."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.errors import ConfigError

State: TypeAlias = Mapping[str, Tensor]
"""A rule's state: named float64 tensors, so that a checkpoint can hold it as it is."""

Info: TypeAlias = Mapping[str, Tensor]
"""What a rule may know of a unit besides its norms: that unit's own slice memberships."""

Unit: TypeAlias = Literal["record", "user"]
Granularity: TypeAlias = Literal["all", "layer", "tensor"]
ReleasePurpose: TypeAlias = Literal[
    "gradient", "clip query", "slice telemetry", "validation", "early stopping", "selection",
    "tuning", "checkpoint",
]  # fmt: skip
"""What a release is for: the closed list of the ledger."""

NORM_FLOOR = 1e-6
"""A rule divides by max(n, NORM_FLOOR), never by less.

Squares of float32 numbers underflow below about 1e-22, so that a norm reported as 0 may be 1e-17
for a billion parameters, and more where a product of lengths was taken of factors that underflow
and factors that are large. C/n would then leave the envelope; C/NORM_FLOOR cannot. Only
contributions that are too small to matter become smaller still.
"""

NOTHING_ASKED = torch.zeros(0, dtype=torch.float64)
"""The scales of no queries, and their answer."""


class ClipRule(abc.ABC):
    """One unit's norms to one unit's weights. It cannot see other units.

    Formal guarantee, which the contract tests measure for every rule in ``conf/clip``: for every
    norm vector ``n`` and every ``info``, with ``w = weights(n)`` and ``s = scale()``,

        Σ_g (w_g · n_g / s_g)² + Σ_k (query_k / query_scale_k)² ≤ 1,

    so that noise of standard deviation σ·s_g in every clip group g and σ·query_scale_k on every
    query k makes the joint sum over units one Gaussian mechanism of noise multiplier σ under
    add-or-remove-one. A rule that asks nothing of a unit has no queries.

    Rules are frozen dataclasses; what changes during training is the state, which the caller holds.
    It changes through ``update`` alone, whose argument is the *noised* sum of the queries divided
    by ``expected_units``, after the noise of the step was drawn.
    """

    name: str
    unit: Unit
    bounded: ClassVar[bool] = True
    """False only for the rule that does not clip: it has no finite scale and allows no noise."""

    @property
    def granularity(self) -> Granularity:
        """Return the kind of clip group that this rule asks the engine for."""
        return "all"

    @property
    def partition(self) -> str | None:
        """Return the kind of slice (a key of ``slices.kinds``) whose memberships ``[..., k]`` must
        be in ``info``, each unit being in exactly one; None for a rule that treats all units alike.
        """
        return None

    @abc.abstractmethod
    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return the first state for a model with these clip groups."""

    @abc.abstractmethod
    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Map norms ``[..., groups]`` to weights ``[..., groups]``, each row by itself."""

    @abc.abstractmethod
    def scale(self, state: State) -> Tensor:
        """Return the declared envelope ``[groups]``: finite and > 0, for add-or-remove-one."""

    @abc.abstractmethod
    def threshold(self, state: State) -> float:
        """Return the bound on the norm of one unit's whole contribution, the C of a learning rate
        that is divided by the threshold.
        """

    def query(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Map norms ``[..., groups]`` to the query columns ``[..., k]`` of each unit by itself."""
        return norms[..., :0]

    def query_scale(self, state: State) -> Tensor:
        """Return the declared scale ``[k]`` of the queries, or ``[1]`` for all of them."""
        return NOTHING_ASKED

    def shares(self, state: State) -> Mapping[ReleasePurpose, float]:
        """Return which part of the envelope each release of a step takes; they add up to 1.

        A release of share s alone is a Gaussian of multiplier σ/√s. Queries take ``state["share"]``
        (see ``shares.py``); those of a rule that keeps no share are told as part of the gradient.
        """
        if "share" not in state:
            return {"gradient": 1.0}
        asked = float(state["share"])
        return {"gradient": 1 - asked, "clip query": asked}

    def update(self, state: State, answer: Tensor) -> State:
        """Return the next state from ``answer`` ``[k]``, noised sum / ``expected_units``."""
        return state


def clip_factor(norms: Tensor, threshold: Tensor) -> Tensor:
    """Return min(1, C/n) elementwise (Abadi et al., CCS 2016, Algorithm 1): 1 where n = 0, but for
    a C below NORM_FLOOR.
    """
    if threshold.dim() == 1:  # the same numbers in half the operations: C / max(n, C)
        bound, least = _bounds(tuple(threshold.tolist()), norms.dtype, norms.device)
        return bound / torch.maximum(norms, least)
    return (threshold.to(norms) / norms.clamp(min=NORM_FLOOR)).clamp_(max=1.0)


@lru_cache(maxsize=64)
def _bounds(
    thresholds: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return C ``[groups]``, and max(C, NORM_FLOOR)."""
    bound = filled(thresholds, dtype, device)
    return bound, bound.clamp(min=NORM_FLOOR) if min(thresholds) < NORM_FLOOR else bound


def filled(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``values`` as a tensor ``[k]``; of one value in half the time that others take."""
    if len(values) == 1:
        return torch.full((1,), values[0], dtype=dtype, device=device)
    return torch.tensor(values, dtype=dtype, device=device)


def ratio(threshold: Tensor, denominator: Tensor, like: Tensor) -> Tensor:
    """Return C / max(denominator, NORM_FLOOR), finite, in the dtype of ``like``.

    ``threshold`` and ``denominator`` are float64, so that neither becomes 0 on the way.
    """
    weight = threshold.to(like.device) / denominator.clamp(min=NORM_FLOOR)
    return weight.clamp(max=torch.finfo(like.dtype).max).to(like.dtype)


def check_norm(key: str, value: float) -> None:
    """Raise ConfigError unless ``value`` can be a clipping threshold."""
    if not (math.isfinite(value) and value > 0):
        why = {
            True: "a threshold of 0 trains nothing",
            False: "an infinite threshold needs infinite noise; to train without clipping use "
            "clip=none mechanism=neither",
        }[value == 0]
        hint = why if value == 0 or math.isinf(value) else ""
        raise ConfigError(key, value, "must be a finite number above 0", hint)


def check_above_zero(key: str, value: float) -> None:
    """Raise ConfigError unless ``value`` is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(key, value, "must be a finite number above 0")


def check_not_negative(key: str, value: float) -> None:
    """Raise ConfigError unless ``value`` is finite and at least 0."""
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(key, value, "must be a finite number, 0 or above")


def check_unit(unit: Unit) -> None:
    """Raise ConfigError for a unit that no sampler draws."""
    if unit not in ("record", "user"):
        raise ConfigError("unit", unit, "must be record or user")
