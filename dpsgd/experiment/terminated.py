"""How a process ends that was asked to."""

from __future__ import annotations

import signal


class Terminated(SystemExit):
    """Somebody sent SIGTERM: the process ends as shells expect, with 128 + 15. ``stopped_by`` is
    what the run's status says.
    """

    stopped_by = "SIGTERM"

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)
