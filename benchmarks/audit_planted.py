"""Faults that people make in private training, planted while a cell trains.

Every one leaves the claim as it was: the noise multiplier, the sampler, ε and δ. None is a setting
of this project, whose steps refuse most of them (the envelope of every unit is checked).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from dpsgd.clipping.flat import Flat
from dpsgd.clipping.rule import Info, State
from dpsgd.engine.gradients import UnitGradients, Units
from dpsgd.randomness import Streams
from dpsgd.training import step as step_module
from dpsgd.training import sums as sums_module
from dpsgd.training.canaries import CanaryBatch
from dpsgd.training.micro import Capture, Share
from dpsgd.training.step import SAFETY

RECORDS = 8
"""What a canary user brings, when a user's records are clipped one by one."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong, the cell's settings that it needs, and what plants it for the C and the
    expected units of that cell.
    """

    what: str
    settings: Mapping[str, Any]
    plant: Callable[[float, float], AbstractContextManager[None]]


@dataclass(frozen=True)
class FlatByLabel(Flat):
    """Flat clipping that is told the label of a unit, and makes nothing of it."""

    @property
    def partition(self) -> str:
        """Return ``label``."""
        return "label"


@contextmanager
def half_the_noise(norm: float, expected: float) -> Generator[None]:
    """Draw every step's noise with half its standard deviation."""
    drawn = step_module.gaussian_noise

    def half(like: Any, groups: Any, std: Any, generator: Any) -> Any:
        return drawn(like, groups, [value / 2 for value in std], generator)

    with patch.object(step_module, "gaussian_noise", half):
        yield


@contextmanager
def one_slice_unclipped(norm: float, expected: float) -> Generator[None]:
    """Clip nothing of the first label's units, and check no envelope."""
    weights = FlatByLabel.weights

    def sparing(self: FlatByLabel, norms: Tensor, state: State, info: Info) -> Tensor:
        spared = info["label"][..., :1].to(norms.device) != 0
        return torch.where(spared, 1.0, weights(self, norms, state, info))

    with (
        patch.object(FlatByLabel, "weights", sparing),
        patch.object(sums_module, "check_envelope", lambda *_: None),
    ):
        yield


@contextmanager
def means_of_micro_batches(norm: float, expected: float) -> Generator[None]:
    """Clip the mean gradient of a micro-batch to C, with the noise of one example clipped to C."""
    captured, together = Capture.share, CanaryBatch.weighted_sum

    def share(self: Capture, *arguments: Any) -> UnitGradients:
        return _Altered(
            found := captured(self, *arguments),
            lambda: _clipped_mean(found.norms(), found.weighted_sum, norm, expected),
        )

    def of_canaries(self: CanaryBatch, weights: Tensor) -> dict[str, Tensor]:
        return _clipped_mean(weights, lambda w: together(self, w), norm, expected)

    with (
        patch.object(Capture, "share", share),
        patch.object(CanaryBatch, "weighted_sum", of_canaries),
    ):
        yield


@contextmanager
def records_one_by_one(norm: float, expected: float) -> Generator[None]:
    """Clip each record of a user to C and add them up, with the noise of one user clipped to C.

    A canary user brings ``RECORDS`` records, equal parts of its gradient.
    """
    together = CanaryBatch.weighted_sum

    def share(
        self: Capture, inputs: Any, targets: Any, share: Share, probed: int | None
    ) -> UnitGradients:
        records = self.engine.capture(self.model, self.loss, inputs, targets, self.groups, None)
        lengths = records.norms()
        units = Units.of(share.unit.to(lengths.device), share.count, "sum")
        weights = (norm / lengths).clamp(max=1.0) * SAFETY / expected
        # What whoever makes this mistake takes for the norm of a user.
        claimed = units.add((weights * lengths).clamp(max=norm))
        return _Altered(records, lambda: records.weighted_sum(weights), claimed)

    def of_canaries(self: CanaryBatch, weights: Tensor) -> dict[str, Tensor]:
        each = self.norms() / RECORDS
        return together(self, (norm / each).clamp(max=1.0).to(weights) * SAFETY / expected)

    with (
        patch.object(Capture, "share", share),
        patch.object(CanaryBatch, "weighted_sum", of_canaries),
    ):
        yield


@contextmanager
def the_same_noise(norm: float, expected: float) -> Generator[None]:
    """Draw every step's noise from the stream of the first."""
    source = Streams.source

    def first(self: Streams, purpose: Any, step: int = 0, device: str = "cpu") -> Any:
        return source(self, purpose, 1 if purpose == "noise" else step, device)

    with patch.object(Streams, "source", first):
        yield


USERS: dict[str, Any] = {
    "clip": "user_level", "users": "dirichlet", "users.count": 1000, "sampling.combine": "sum",
}  # fmt: skip

FAULTS = {
    "half the noise": Fault("σ/2 instead of σ", {}, half_the_noise),
    "a slice unclipped": Fault(
        "gradients of one label are not clipped",
        {"clip._target_": f"{__name__}.FlatByLabel"}, one_slice_unclipped,
    ),
    "means clipped": Fault(
        "a micro-batch's mean is clipped, with noise for one example", {}, means_of_micro_batches
    ),
    "records for users": Fault(
        "a user's records are clipped one by one, under a claim of users",
        USERS, records_one_by_one,
    ),
    "noise again": Fault("every step has the noise of the first", {}, the_same_noise),
}  # fmt: skip


@dataclass(frozen=True)
class _Altered:
    """Gradients whose sum is another one; ``lengths`` None: their own norms."""

    inner: UnitGradients
    total: Callable[[], dict[str, Tensor]]
    lengths: Tensor | None = None

    @property
    def losses(self) -> Tensor:
        return self.inner.losses

    def norms(self) -> Tensor:
        return self.inner.norms() if self.lengths is None else self.lengths

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        return self.total()

    def without(self, dropped: Tensor) -> UnitGradients:
        raise NotImplementedError


def _clipped_mean(
    units: Tensor, weighted_sum: Callable[[Tensor], dict[str, Tensor]], norm: float, expected: float
) -> dict[str, Tensor]:
    """Return k·clip(mean of k units)/expected; ``units`` is ``[k, groups]`` of any content."""
    count = len(units)
    mean = weighted_sum(torch.full_like(units, 1 / max(count, 1)))
    length = math.sqrt(sum(_squares(mean)))
    factor = min(1.0, norm / max(length, 1e-12)) * count / expected
    return {name: value * factor for name, value in mean.items()}


def _squares(values: Mapping[str, Tensor]) -> Iterator[float]:
    return (float(value.double().square().sum()) for value in values.values())
