"""What both processes beside the training begin and end with."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.wire import Message, Wire


def run(work: Callable[[Wire, Address, Message], None], niceness: int) -> None:
    """Do ``work`` for the process that started this one, and leave without ceremony.

    ``niceness`` is how far it gives way to what trains.
    """
    wire = Wire(os.dup(0), os.dup(1))
    with open(os.devnull, "r+b") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    with contextlib.suppress(EOFError, OSError):
        hello = wire.receive(60.0)
        if hello is not None:
            with contextlib.suppress(OSError):
                os.nice(niceness)
            work(wire, Address(hello["uri"], hello["experiment"], Path(hello["runs"])), hello)
    os._exit(0)  # threads of MLflow's own would be waited for


def orphaned(hello: Message) -> bool:
    """Whether the process that started this one is gone, whoever else holds its pipes."""
    return os.getppid() != hello["parent"]


def at_most(seconds: int) -> None:
    """End this process after so long, whatever it waits for then."""
    signal.alarm(seconds)
