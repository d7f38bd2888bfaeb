"""SIGTERM and Ctrl-C as an orderly end: between two steps while training, at once otherwise."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dpsgd.experiment.terminated import Terminated


class Interrupts:
    """Whether somebody asked this process to end."""

    def __init__(self) -> None:
        self._asked: BaseException | None = None
        self._waits = False

    @property
    def asked(self) -> bool:
        """Whether to end as soon as a step is done."""
        return self._asked is not None

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Let a first signal inside wait for :meth:`end`, or for the end of the block; a second
        one waits for nothing.
        """
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        self.end()

    def end(self) -> None:
        """Raise KeyboardInterrupt or Terminated if it was asked for."""
        if self._asked is not None:
            raise self._asked

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        del frame
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated()
        if self._waits and self._asked is None:
            self._asked = error
            return
        raise error


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Give what knows of signals inside the block.

    Signals that somebody else handles already, and those of a process that is not ours to end (in
    a thread beside the main one), are left alone.
    """
    interrupts = Interrupts()
    ours: dict[signal.Signals, object] = {}
    if threading.current_thread() is threading.main_thread():
        usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
        for number, handler in usual.items():
            if signal.getsignal(number) is handler or signal.getsignal(number) == handler:
                signal.signal(number, interrupts.receive)
                ours[number] = handler
    try:
        yield interrupts
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
