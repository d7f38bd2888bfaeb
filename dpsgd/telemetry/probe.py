"""Norms and clip fractions on records that are declared public and are nobody's to protect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analysis import schema
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.engine.probing import has_dropout
from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.telemetry.kept import rows_again, rows_kept, sums_again, sums_kept
from dpsgd.telemetry.recorder import Bias, Row, SliceKeys, StepFacts
from dpsgd.telemetry.reduce import Reduced, reduce_window, total_rows, window_rows
from dpsgd.training.dropout import DropoutStream
from dpsgd.training.micro import Capture, shares
from dpsgd.training.sums import SAFETY


@dataclass(frozen=True)
class Probe:
    """Settings of telemetry on public records (``conf/telemetry/probe.yaml``).

    The validation records stand in for those of training: their norms say what clipping does to
    records like them, and nothing raw about a training record, for the model and the threshold
    that they are measured with are inside ε. ``records`` of them are measured, evenly spaced, every
    ``window`` steps.
    """

    name: str
    window: int
    records: int

    def __post_init__(self) -> None:
        for key in ("window", "records"):
            if getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "must be above 0")

    def chosen(self, n: int) -> np.ndarray:
        """Return the positions of the measured records among ``n``."""
        return np.unique(np.linspace(0, n - 1, min(n, self.records)).round().astype(np.int64))


@dataclass(frozen=True)
class Measured:
    """Public records with what it takes to measure them as a step would.

    ``info`` is what the rule may know of each, ``membership`` ``[records, slices]``. ``streams``
    are the measurement's own: a step's masks must not depend on whether anyone looked.
    """

    inputs: Tensor
    targets: Tensor
    info: Info
    membership: np.ndarray
    capture: Capture
    rule: ClipRule
    micro_batch: int | None
    clipping: bool
    streams: Streams
    device: str

    def norms_and_weights(self, step: int, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return norms and weights ``[records, groups]`` under the model as it is."""
        parts = [self._of_share(norms, rows, state) for rows, norms in self._norms(step)]
        found = (torch.cat(values).double().cpu().numpy() for values in zip(*parts, strict=True))
        norms, weights = found
        return norms, weights

    def _norms(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        model = self.capture.model
        stream = DropoutStream(self.streams, step, self.device) if has_dropout(model) else None
        count = len(self.inputs)
        for share in shares(torch.arange(count), count, self.micro_batch):
            rows = share.rows
            with stream or nullcontext():
                gradients = self.capture.share(self.inputs[rows], self.targets[rows], share, None)
            yield rows, gradients.norms()

    def _of_share(self, norms: Tensor, rows: slice, state: State) -> tuple[Tensor, Tensor]:
        if not self.clipping:
            return norms, torch.ones_like(norms)
        info = {key: value[rows] for key, value in self.info.items()}
        return norms, self.rule.weights(norms, state, info) * SAFETY


@dataclass
class ProbeRecorder:
    """Measures every ``window`` steps, before the step. Rows say ``probe_`` before their stat."""

    settings: Probe
    unit: str
    groups: tuple[str, ...]
    keys: SliceKeys
    release: str
    measured: Measured
    rows: list[Row] = field(default_factory=list)
    clip_fraction: float | None = None
    _sums: list[Reduced] = field(default_factory=list)

    def before(self, step: int, state: State) -> None:
        """Measure the model that ``step`` starts from."""
        if (step - 1) % self.settings.window:
            return
        norms, weights = self.measured.norms_and_weights(step, state)
        finite = np.isfinite(norms).all(axis=1)
        membership = self.measured.membership[finite]
        reduced = reduce_window(norms[finite], weights[finite], membership)
        for row in window_rows(reduced, self.unit, step, self.groups, self.keys):
            stat = f"{schema.PROBE}_{row['stat']}"
            self.rows.append(row | {"stat": stat, "release": self.release})
        self._sums.append(reduced)
        self.clip_fraction = reduced.overall_clip_fraction()

    def wants_bias(self, step: int) -> bool:
        """Return False: the raw mean is that of training records."""
        return False

    def add(self, facts: StepFacts) -> None:
        """Keep nothing of a step on training records."""

    def add_bias(self, step: int, values: Bias) -> None:
        """Keep nothing."""

    def finish(self) -> None:
        """Nothing is buffered."""

    def totals(self) -> list[Row]:
        """Clip fraction and kept over all measurements, of split ``probe``."""
        return total_rows(self._sums, self.keys, schema.PROBE, self.release)

    def state(self) -> dict[str, Any]:
        """Return rows and sums."""
        return {
            "rows": rows_kept(self.rows), "sums": sums_kept(self._sums),
            "clip_fraction": self.clip_fraction,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was."""
        self.rows, self._sums = rows_again(state["rows"]), sums_again(state["sums"])
        self.clip_fraction = state["clip_fraction"]
