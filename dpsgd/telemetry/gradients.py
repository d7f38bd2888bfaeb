"""A sample of units, one by one: norms before and after clipping, and a plane to draw them in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analysis import schema
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.engine.choosing import remembered
from dpsgd.engine.gradients import Units
from dpsgd.engine.precision import full_precision
from dpsgd.engine.rows import Batch, take
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw
from dpsgd.telemetry.kept import rows_again, rows_kept
from dpsgd.telemetry.plane import Axes, placed, plane
from dpsgd.telemetry.recorder import Row
from dpsgd.training.dropout import DropoutStream
from dpsgd.training.micro import Capture, Share, shares
from dpsgd.training.sums import SAFETY

NUMBERS = 30_000
"""Numbers that all looks of a run may write: about 120 kB before compression."""


@dataclass(frozen=True)
class Sampled:
    """Units of the training split with what it takes to clip them as a step would.

    ``draw`` holds them, ``inputs`` and ``targets`` the rows of their records alone, in the draw's
    order. ``info`` is what the rule may know of each. ``facts`` are the columns that are the same
    at every look. The means of the units of ``head`` and ``tail`` ``[units]`` bool span the plane.
    ``streams`` are the sample's own: the masks of a step must not depend on it.
    """

    draw: Draw
    inputs: Batch
    targets: Batch
    info: Info
    facts: Sequence[Row]
    head: Tensor
    tail: Tensor
    capture: Capture
    rule: ClipRule
    micro_batch: int | None
    clipping: bool
    streams: Streams
    device: str

    def look(self, step: int, state: State) -> list[Row]:
        """Return a row for each unit whose gradient is finite, under the model as it is.

        ``norm_before_<group>`` is the norm of the unit's whole gradient (a user's: of the sum or
        average of those of its records), ``norm_after_<group>`` that times the rule's weight.
        """
        with self._untouched(step):
            norms, means = self._measured()
        finite = torch.isfinite(norms).all(1)
        with self._untouched(step):
            places = self._placed(plane(*means)).double().cpu().numpy()
        norms = torch.where(finite[:, None], norms, 0.0)
        weights = torch.ones_like(norms)
        if self.clipping:
            weights = self.rule.weights(norms, state, self.info) * SAFETY
        threshold = self.rule.threshold(state)
        before, after = (values.double().cpu().numpy() for values in (norms, norms * weights))
        return [
            {"step": step, **self.facts[i], "threshold": threshold,
             "projection_1": float(places[i, 0]), "projection_2": float(places[i, 1]),
             **self._by_group(schema.NORM_BEFORE, before[i]),
             **self._by_group(schema.NORM_AFTER, after[i])}
            for i in torch.nonzero(finite).flatten().tolist()
        ]  # fmt: skip

    def _measured(self) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """Return norms ``[units, groups]``, and the mean gradients of head and tail."""
        found: list[Tensor] = []
        sums: list[dict[str, Tensor]] = [{}, {}]
        used, first = [0, 0], 0
        for share in shares(self.draw.unit, self.draw.units, self.micro_batch):
            gradients = self.capture.share(*self._rows(share), share, None)
            norms = gradients.norms()
            found.append(norms)
            finite = torch.isfinite(norms).all(1)
            if not bool(finite.all()):
                gradients = gradients.without(~finite)
            for place, side in enumerate((self.head, self.tail)):
                own = side[first : first + share.count] & finite
                more = gradients.weighted_sum(own[:, None].to(norms).expand_as(norms).contiguous())
                sums[place] = {n: v + sums[place].get(n, 0.0) for n, v in more.items()}
                used[place] += int(own.sum())
            first += share.count
        means = [
            {n: v / count if count else v * math.nan for n, v in total.items()}
            for total, count in zip(sums, used, strict=True)
        ]
        return torch.cat(found), means

    def _placed(self, axes: Axes) -> Tensor:
        found: list[Tensor] = []
        own = self.capture
        for share in shares(self.draw.unit, self.draw.units, self.micro_batch):
            units = Units.of(share.unit.to(self.device), share.count, own.combine or "sum")
            with full_precision(units.unit):
                found.append(placed(own.model, own.loss, *self._rows(share), units, axes))
        return torch.cat(found)

    def _rows(self, share: Share) -> tuple[Batch, Batch]:
        return take(self.inputs, share.rows), take(self.targets, share.rows)

    @contextmanager
    def _untouched(self, step: int) -> Iterator[None]:
        """Leave what the next step reads as it was: random state, and how its model is run."""
        with (
            DropoutStream(self.streams, step, self.device),
            remembered(self.capture.model),
        ):
            yield

    def _by_group(self, word: str, values: np.ndarray) -> Row:
        names = self.capture.groups.names
        return {f"{word}{name}": float(v) for name, v in zip(names, values, strict=True)}


@dataclass
class GradientRecorder:
    """Looks at the sample before some steps. Every row is ``private``."""

    sampled: Sampled
    looks: frozenset[int]
    rows: list[Row] = field(default_factory=list)

    def before(self, step: int, state: State) -> None:
        """Look, if it is time to, at the model that ``step`` starts from; change nothing."""
        if step in self.looks:
            self.rows += self.sampled.look(step, state)

    def state(self) -> dict[str, Any]:
        """Return the rows so far, for a checkpoint."""
        return rows_kept(self.rows)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was."""
        self.rows = rows_again(state)


def looks_at(steps: int, looks: int) -> frozenset[int]:
    """Return ``looks`` steps of 1 … ``steps``, evenly spaced from the last to the first."""
    found = np.linspace(steps, 1, min(looks, steps)).round().astype(int)
    return frozenset(int(step) for step in found)


def most_units(units: int, looks: int, groups: int) -> int:
    """Return how many units a look may hold, so that a file of many clip groups stays small."""
    return min(units, max(16, NUMBERS // (looks * (2 * groups + 4))))
