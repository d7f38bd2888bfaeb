"""Clip fractions by slice inside ε: counts that are columns of the gradient's own release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analysis import schema
from dpsgd.clipping.joint import Joint
from dpsgd.clipping.rule import ClipRule, State
from dpsgd.errors import ConfigError
from dpsgd.telemetry.counts import PURPOSE, SliceCounts
from dpsgd.telemetry.kept import rows_again, rows_kept
from dpsgd.telemetry.ratio import Share, Z, share_of
from dpsgd.telemetry.recorder import Bias, Row, SliceKeys, StepFacts


@dataclass(frozen=True)
class Accounted:
    """Settings of slice counts inside ε (``conf/telemetry/accounted.yaml``).

    ``share`` s of the envelope goes to the counts: the gradient's noise is 1/√(1−s) times as large
    (1.026 for 5 %), and ε is what it was. ``kinds`` are keys of ``slices.kinds`` (null: all); slice
    all is always counted. ``most_memberships`` declares in how many counted slices, besides all,
    one unit can be, and so bounds what it can change; null takes ``slices.most_memberships`` for
    records, and the number of slices where that is null or a unit is a user.
    """

    name: str
    share: float
    window: int
    kinds: Sequence[str] | None
    most_memberships: int | None
    of_groups: bool

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError("share", self.share, "must be above 0 and below 1")
        if self.window < 1:
            raise ConfigError("window", self.window, "must be a number of steps above 0")
        if self.most_memberships is not None and self.most_memberships < 0:
            raise ConfigError(
                "most_memberships", self.most_memberships, "must be 0 or more, or null"
            )

    def joint(self, rule: ClipRule, slices: int, groups: int, most: int) -> Joint:
        """Return ``rule`` with the counts of ``slices`` slices beside it, of which a unit is in
        ``most`` at most, slice all included.
        """
        counts = SliceCounts(slices, groups, most, self.of_groups)
        return Joint(rule, (counts,), (self.share,))

    def start(
        self, rule: Joint, groups: tuple[str, ...], keys: SliceKeys, noise_multiplier: float,
        expected_units: float,
    ) -> AccountedRecorder:  # fmt: skip
        """Return the recorder of one run of ``rule``, whose counts are of the slices ``keys``."""
        several = self.of_groups and len(groups) > 1
        named = [*groups, schema.GROUP_ALL] if several else [schema.GROUP_ALL]
        (scale,) = rule.beside_scale()
        return AccountedRecorder(
            self, rule.unit, tuple(named), keys, expected_units, (noise_multiplier * scale) ** 2
        )


@dataclass
class AccountedRecorder:
    """Adds noised counts up over windows of steps. Every row is ``accounted``.

    It reads the noised answers and the threshold, which follows from noised answers, and nothing
    else of a step. What is estimated is the clip fraction of the units that were *drawn* in the
    window, each as often as it was drawn; the intervals are those of the noise, whose ``variance``
    a step and count is known.
    """

    settings: Accounted
    unit: str
    groups: tuple[str, ...]
    keys: SliceKeys
    expected_units: float
    variance: float
    rows: list[Row] = field(default_factory=list)
    clip_fraction: float | None = None
    _step: int = 0
    _threshold: float = 0.0
    _window: list[np.ndarray] = field(default_factory=list)
    _whole: np.ndarray | None = None
    _steps: int = 0

    def before(self, step: int, state: State) -> None:
        """Look at nothing."""

    def wants_bias(self, step: int) -> bool:
        """Return False: the raw mean is outside ε."""
        return False

    def add_bias(self, step: int, values: Bias) -> None:
        """Keep nothing: the raw mean is outside ε."""

    def add(self, facts: StepFacts) -> None:
        """Add one step's noised counts; write rows when the window is full."""
        self._step, self._threshold = facts.step, facts.threshold
        self._window.append(self._counts(facts.answers[PURPOSE]))
        if len(self._window) >= self.settings.window:
            self.finish()

    def finish(self) -> None:
        """Write the rows of the window."""
        if not self._window:
            return
        counts, steps = np.sum(self._window, axis=0), len(self._window)
        self._window.clear()
        self._whole = counts if self._whole is None else self._whole + counts
        self._steps += steps
        for (kind, name), of_slice in zip(self.keys, counts, strict=True):
            place = {"step": self._step, "unit": self.unit, "slice_kind": kind, "slice": name}
            for group, (clipped, whole) in zip(self.groups, of_slice, strict=True):
                self.rows += self._rows(place | {"group": group}, clipped, whole, steps)
        self.rows.append({
            "step": self._step, "unit": self.unit, "slice_kind": "all", "slice": "all",
            "group": schema.GROUP_ALL, "stat": "threshold", "value": self._threshold, "n": 0,
            "release": "accounted",
        })  # fmt: skip
        latest = self._share(counts[0, -1, 0], counts[0, -1, 1], steps).value
        self.clip_fraction = None if np.isnan(latest) else latest

    def totals(self) -> list[Row]:
        """Clip fraction of every slice over the whole of training, with its interval.

        ``n`` is the noised number of units that were drawn, 0 where it came out below.
        """
        if self._whole is None:
            return []
        rows: list[Row] = []
        for (kind, name), (clipped, whole) in zip(self.keys, self._whole[:, -1], strict=True):
            share = self._share(clipped, whole, self._steps)
            rows.append({
                "split": "train", "slice_kind": kind, "slice": name, "metric": "clip_fraction",
                "value": share.value, "n": _counted(clipped + whole), "lo": share.lo,
                "hi": share.hi, "release": "accounted",
            })  # fmt: skip
        return rows

    def state(self) -> dict[str, Any]:
        """Return rows, noised sums, and the counts of the window that is not full."""
        return {
            "rows": rows_kept(self.rows), "clip_fraction": self.clip_fraction,
            "step": self._step, "threshold": self._threshold, "steps": self._steps,
            "window": [torch.from_numpy(counts) for counts in self._window],
            "whole": None if self._whole is None else torch.from_numpy(self._whole),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was."""
        self.rows, self.clip_fraction = rows_again(state["rows"]), state["clip_fraction"]
        self._step, self._threshold = state["step"], state["threshold"]
        self._steps, whole = state["steps"], state["whole"]
        self._window = [counts.numpy() for counts in state["window"]]
        self._whole = None if whole is None else whole.numpy()

    def _rows(self, place: Row, clipped: float, whole: float, steps: int) -> list[Row]:
        sampled = clipped + whole
        half = Z * (2 * steps * self.variance) ** 0.5
        found = {
            "clip_fraction": self._share(clipped, whole, steps),
            "units": Share(sampled, sampled - half, sampled + half),
        }
        return [
            place | {"stat": stat, "value": share.value, "n": _counted(sampled), "lo": share.lo,
                     "hi": share.hi, "release": "accounted"}
            for stat, share in found.items()
        ]  # fmt: skip

    def _share(self, clipped: float, whole: float, steps: int) -> Share:
        return share_of(float(clipped), float(whole), steps * self.variance)

    def _counts(self, answer: Tensor) -> np.ndarray:
        """Return noised counts ``[slices, counted groups, 2]``."""
        shape = (len(self.keys), len(self.groups), 2)
        return answer.double().numpy().reshape(shape) * self.expected_units


def _counted(noised: float) -> int:
    return max(0, round(float(noised)))
