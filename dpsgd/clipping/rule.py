"""What a clipping rule is: one unit's norms to one unit's weights, with a declared envelope."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
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


class ClipRule(abc.ABC):
    """One unit's norms to one unit's weights. It cannot see other units.

    Formal guarantee, which the contract tests measure for every rule in ``conf/clip``: for every
    norm vector ``n`` and every ``info``, with ``w = weights(n)`` and ``s = scale()``,

        Σ_g (w_g · n_g / s_g)² ≤ 1,

    so that noise of standard deviation σ·s_g in every clip group g makes the sum over units one
    Gaussian mechanism of noise multiplier σ under add-or-remove-one.

    Rules are frozen dataclasses; what changes during training is the state, which the caller holds.
    """

    name: str
    unit: Unit
    bounded: ClassVar[bool] = True
    """False only for the rule that does not clip: it has no finite scale and allows no noise."""

    @property
    def granularity(self) -> Granularity:
        """Return the kind of clip group that this rule asks the engine for."""
        return "all"

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


def clip_factor(norms: Tensor, threshold: Tensor) -> Tensor:
    """Return min(1, C/n) elementwise, and 1 where n = 0 (Abadi et al., CCS 2016, Algorithm 1)."""
    return torch.clamp(threshold.to(norms) / norms, max=1.0)


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


def check_unit(unit: Unit) -> None:
    """Raise ConfigError for a unit that no sampler serves yet."""
    if unit != "record":
        raise ConfigError("unit", unit, "must be record; the samplers draw records only")
