"""A process of our own beside the one that trains, seen from the one that trains."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.wire import Message, Wire

_HOME = Path(__file__).resolve().parents[3]
"""Where this package lies: the process must find the same one, from any folder."""


class Child:
    """A running process. It ends when this one does, and can be made to end.

    ``seen`` is the last message that it sent. Raises OSError if it cannot be started.
    """

    def __init__(self, module: str, address: Address, more: Mapping[str, Any]) -> None:
        paths = [str(_HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.seen: Message = {}
        # A session of its own: Ctrl-C is for the training, which says what follows from it.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, start_new_session=True,
        )  # fmt: skip
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("a process without pipes")
        self._wire = Wire(self._process.stdout.fileno(), self._process.stdin.fileno())
        # Not on its command line, where all users of the machine could read a password.
        hello = {"uri": address.uri, "experiment": address.experiment,
                 "runs": str(address.runs.resolve()), "parent": os.getpid()}  # fmt: skip
        self.tell(hello | dict(more))

    @property
    def running(self) -> bool:
        """Whether the process has not ended by itself."""
        return self._process.poll() is None

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises OSError if the process is gone."""
        self._wire.send(message)

    def ask(self, message: Mapping[str, Any], seconds: float) -> Message | None:
        """Return the answer to a message, None if there is none in time or the process is gone."""
        try:
            self.tell(message)
        except OSError:
            return None
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                answer = self._wire.receive(left)
            except EOFError:
                return None
            if answer is not None:
                self.seen = answer
                if answer.get("final"):
                    return answer
        return None

    def end(self, *, now: bool = False) -> None:
        """Let the process finish what it was told and end; ``now`` ends it at once."""
        process = self._process
        if now:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0 if now else 0.5)
        with warnings.catch_warnings():  # it may go on without us, as it should
            warnings.simplefilter("ignore", ResourceWarning)
            del self._process, process
