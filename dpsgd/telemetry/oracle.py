"""Raw telemetry: norms and clip fractions as they were, a diagnostic outside ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analysis import schema
from dpsgd.clipping.rule import State
from dpsgd.errors import ConfigError
from dpsgd.telemetry.gradients import GradientRecorder
from dpsgd.telemetry.kept import (
    facts_again,
    facts_kept,
    rows_again,
    rows_kept,
    sums_again,
    sums_kept,
)
from dpsgd.telemetry.recorder import Bias, Row, SliceKeys, StepFacts
from dpsgd.telemetry.reduce import Reduced, reduce_window, total_rows, window_rows


@dataclass(frozen=True)
class Oracle:
    """Settings of raw telemetry (``conf/telemetry/oracle.yaml``).

    ``gradient_looks`` times in training, at most ``gradient_units`` units are looked at one by one;
    null or 0 of either: never.
    """

    name: str
    window: int
    bias_every: int
    gradient_looks: int | None
    gradient_units: int | None

    def __post_init__(self) -> None:
        for key in ("window", "bias_every"):
            if getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "must be a number of steps above 0")
        for key in ("gradient_looks", "gradient_units"):
            if (getattr(self, key) or 0) < 0:
                raise ConfigError(key, getattr(self, key), "must be 0 or more, or null")

    @property
    def looks_at_units(self) -> bool:
        """Whether units are looked at one by one."""
        return bool(self.gradient_looks and self.gradient_units)

    def start(
        self, unit: str, groups: tuple[str, ...], keys: SliceKeys, membership: np.ndarray
    ) -> OracleRecorder:
        """Return the recorder of one run; ``membership`` is ``[n_units, slices]`` of train."""
        return OracleRecorder(self, unit, groups, keys, membership)


@dataclass
class OracleRecorder:
    """Buffers steps and reduces them a window at a time. Every row is ``private``."""

    settings: Oracle
    unit: str
    groups: tuple[str, ...]
    keys: SliceKeys
    membership: np.ndarray
    rows: list[Row] = field(default_factory=list)
    clip_fraction: float | None = None
    gradients: GradientRecorder | None = None
    _buffer: list[StepFacts] = field(default_factory=list)
    _sums: list[Reduced] = field(default_factory=list)

    def before(self, step: int, state: State) -> None:
        """Look at the sample of units, if it is time to: all else comes with the step."""
        if self.gradients is not None:
            self.gradients.before(step, state)

    def wants_bias(self, step: int) -> bool:
        """Whether ``step`` is one of every ``bias_every``."""
        return step % self.settings.bias_every == 0

    def add(self, facts: StepFacts) -> None:
        """Buffer one step; reduce when the window is full."""
        self._buffer.append(facts)
        if len(self._buffer) >= self.settings.window:
            self.finish()

    def add_bias(self, step: int, values: Bias) -> None:
        """Keep one row a value."""
        for group, found in values.items():
            self.rows += [self._row(step, group, stat, value) for stat, value in found.items()]

    def finish(self) -> None:
        """Reduce the buffer to rows."""
        if not self._buffer:
            return
        step = self._buffer[-1].step
        facts = self._buffer
        members = _joined([f.members for f in facts])
        norms, weights, losses = (
            _joined(values).astype(np.float64)
            for values in zip(*((f.norms, f.weights, f.losses) for f in facts), strict=True)
        )
        membership = self.membership[members]
        kept = _kept(facts, len(members))
        # What was dropped was neither clipped nor kept: it is counted by itself.
        reduced = reduce_window(norms[kept], weights[kept], membership[kept])
        self.rows += window_rows(reduced, self.unit, step, self.groups, self.keys)
        loss = float(losses.mean()) if len(losses) else None
        self.rows.append(self._row(step, schema.GROUP_ALL, "loss", loss, len(losses)))
        self.rows += self._dropped(step, membership, kept)
        threshold = self._buffer[-1].threshold
        self.rows.append(self._row(step, schema.GROUP_ALL, "threshold", threshold))
        self._sums.append(reduced)
        self.clip_fraction = reduced.overall_clip_fraction()
        self._buffer.clear()

    def _dropped(self, step: int, membership: np.ndarray, kept: np.ndarray) -> list[Row]:
        """Return how many units of each slice were left out, of ``n`` drawn; no row for none."""
        gone, drawn = membership[~kept].sum(0), membership.sum(0)
        return [
            self._row(step, schema.GROUP_ALL, "dropped", float(gone[i]), int(drawn[i]))
            | {"slice_kind": kind, "slice": name}
            for i, (kind, name) in enumerate(self.keys)
            if gone[i]
        ]

    def totals(self) -> list[Row]:
        """Clip fraction and kept of every slice over all windows, over the joint norm."""
        return total_rows(self._sums, self.keys, "train", "private")

    def state(self) -> dict[str, Any]:
        """Return rows, sums, and the steps of the window that is not full."""
        return {
            "rows": rows_kept(self.rows), "sums": sums_kept(self._sums),
            "buffer": [facts_kept(facts) for facts in self._buffer],
            "clip_fraction": self.clip_fraction,
            "gradients": None if self.gradients is None else self.gradients.state(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was."""
        self.rows, self._sums = rows_again(state["rows"]), sums_again(state["sums"])
        self._buffer = [facts_again(facts) for facts in state["buffer"]]
        self.clip_fraction = state["clip_fraction"]
        if self.gradients is not None:
            self.gradients.restore(state["gradients"])

    def _row(self, step: int, group: str, stat: str, value: float | None, n: int = 0) -> Row:
        return {
            "step": step, "unit": self.unit, "slice_kind": "all", "slice": "all", "group": group,
            "stat": stat, "value": value, "n": n, "release": "private",
        }  # fmt: skip


def _joined(steps: Sequence[Tensor]) -> np.ndarray:
    """Return the values of several steps one after another."""
    return torch.cat(list(steps)).cpu().numpy()


def _kept(facts: Sequence[StepFacts], units: int) -> np.ndarray:
    """Return ``[units]``: which units of all these steps were not dropped."""
    kept = np.ones(units, dtype=bool)
    first = 0
    for step in facts:
        kept[[first + position for position in step.dropped]] = False
        first += len(step.members)
    return kept
