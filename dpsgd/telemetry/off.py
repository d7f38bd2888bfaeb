"""No telemetry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsgd.telemetry.recorder import NoRecorder, SliceKeys


@dataclass(frozen=True)
class Off:
    """Record nothing about gradients (``conf/telemetry/off.yaml``)."""

    name: str

    def start(
        self, unit: str, groups: tuple[str, ...], keys: SliceKeys, membership: np.ndarray
    ) -> NoRecorder:
        """Return a recorder that keeps nothing."""
        return NoRecorder()
