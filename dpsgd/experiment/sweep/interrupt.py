"""Ctrl-C and SIGTERM during a sweep: once to end it in order, twice to leave at once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from dpsgd.experiment.sweep.halt import NOW, Halt

SIGNALS = (signal.SIGINT, signal.SIGTERM)
TOLD = "\nending the cells that run, in order; no other starts. Interrupt again to leave at once"


@dataclass
class Interrupts:
    """The signals that have come, by name."""

    came: list[signal.Signals] = field(default_factory=list)

    @property
    def exitcode(self) -> int | None:
        """128 and the first signal's number, as a shell has it; None if none came."""
        return 128 + self.came[0] if self.came else None


@contextmanager
def in_order(halt: Halt) -> Iterator[Interrupts]:
    """Let the first Ctrl-C or SIGTERM inside the block halt the sweep; the second raises
    KeyboardInterrupt.
    """
    interrupts = Interrupts()

    def came(number: int, frame: FrameType | None) -> None:
        interrupts.came.append(signal.Signals(number))
        halt.ask(NOW)
        if len(interrupts.came) > 1:
            raise KeyboardInterrupt
        print(TOLD, file=sys.stderr, flush=True)  # noqa: T201

    before = {number: signal.signal(number, came) for number in SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
