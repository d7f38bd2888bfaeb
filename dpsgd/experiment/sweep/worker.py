"""A launcher's worker: it leaves Ctrl-C to who leads the sweep, and ends when that is gone."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from dpsgd.experiment.processes import is_running
from dpsgd.experiment.sweep.halt import Halt

POLL = 1.0


@cache
def follow_leader(sweep: Path) -> None:
    """Make this process a worker of the sweep in ``sweep``, unless it leads that itself.

    Ctrl-C reaches every process of a terminal, and what it means is decided in one. A worker whose
    leader was killed would train on for nobody; its child ends in order once it is gone. Jobs of
    Slurm live on: their leader may sit where people log in and out.
    """
    halt = Halt(sweep)
    if not halt.led_elsewhere:
        return
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    leader = halt.led_by
    if leader is not None and "SLURM_JOB_ID" not in os.environ:
        threading.Thread(target=_leave_with, args=(leader,), daemon=True).start()


def _leave_with(leader: int) -> None:
    while is_running(leader):
        time.sleep(POLL)
    os._exit(1)
