"""Now and then while training: everything that a resume needs, on disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from dpsgd.experiment.resume.generations import Generations
from dpsgd.experiment.resume.interrupts import Interrupts
from dpsgd.telemetry.recorder import Recorder
from dpsgd.training.canaries import Canaries
from dpsgd.training.looks import Watch
from dpsgd.training.snapshot import Snapshot

log = logging.getLogger(__name__)

SHARE = 20
"""A checkpoint waits until training took so many times as long as the last one took to write."""


class Checkpoints:
    """Writes a checkpoint after a step once ``every`` seconds have passed (None: never; 0: after
    every step), and when the run is asked to end; the run ends then.

    ``identity`` says of which run, streams and environment they are. ``content``, the one that an
    earlier attempt left, puts recorder, watch and canaries back where they were; ``spent`` is how
    many seconds training took up to there. A recorder without ``state`` and a disk without room
    cost the checkpoint, not the run.
    """

    def __init__(
        self, generations: Generations, identity: Mapping[str, Any],
        content: Mapping[str, Any] | None, every: float | None, interrupts: Interrupts, *,
        recorder: Recorder, watch: Watch | None, canaries: Canaries | None = None,
    ) -> None:  # fmt: skip
        self._generations, self._identity, self._interrupts = generations, identity, interrupts
        self._recorder, self._watch, self._canaries = recorder, watch, canaries
        self._every = every if hasattr(recorder, "state") else None
        self.start: Snapshot | None = None
        self.spent = 0.0
        if content is not None:
            self.start = Snapshot(**content["training"])
            self.spent = float(content["seconds"])
            recorder.restore(content["recorder"])
            if watch is not None:
                watch.restore(content["watch"])
            if canaries is not None:
                canaries.reading.restore(content["canaries"])
        self._began = self._last = time.monotonic()
        self._cost = 0.0

    def after(self, step: int, take: Callable[[], Snapshot]) -> None:
        """Write the state after ``step`` if it is due; raise if the run was asked to end."""
        asked = self._interrupts.asked
        if self._every is not None and (asked or self._due(self._every)):
            self._write(step, take)
        if asked:
            self._interrupts.end()

    def _due(self, every: float) -> bool:
        waited = time.monotonic() - self._last
        return not every or waited >= max(every, SHARE * self._cost)

    def _write(self, step: int, take: Callable[[], Snapshot]) -> None:
        began = time.monotonic()
        try:
            self._generations.write(self._content(take(), self.spent + began - self._began))
        except OSError as error:
            log.warning("no checkpoint after step %d: %s", step, error)
        except TypeError as error:  # the state of a part of the user's own
            log.warning("no checkpoints of this run: %s", error)
            self._every = None
        self._last = time.monotonic()
        self._cost = self._last - began

    def _content(self, snapshot: Snapshot, seconds: float) -> dict[str, Any]:
        return {
            "identity": dict(self._identity),
            "step": snapshot.step,
            "seconds": seconds,
            "training": dict(vars(snapshot)),
            "recorder": self._recorder.state(),
            "watch": None if self._watch is None else self._watch.state(),
            "canaries": None if self._canaries is None else self._canaries.reading.state(),
        }
