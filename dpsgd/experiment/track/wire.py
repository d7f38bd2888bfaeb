"""Messages between two processes: JSON, one a line, with a limit on every wait."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]


class Wire:
    """Both ends are file descriptors; a message is one line."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._rest = b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises OSError if nobody will read it."""
        left = json.dumps(message).encode() + b"\n"
        while left:
            left = left[os.write(self._write, left) :]

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, None if none came in time.

        Raises EOFError if none will come any more.
        """
        until = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            more = os.read(self._read, 1 << 16)
            if not more:
                raise EOFError
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)
