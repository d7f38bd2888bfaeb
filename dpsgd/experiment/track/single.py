"""The process that copies the cells of this one, seen from here: started early, asked at the end.

One process serves all cells that one process trains after each other: MLflow takes seconds to
import, which it does while the first of them trains.
"""

from __future__ import annotations

import atexit
import os

from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.child import Child
from dpsgd.experiment.track.wire import Message

SECONDS = 20.0
"""How long a finished run waits for its copy."""
_MODULE = "dpsgd.experiment.track.serving"


def expect(address: Address, run_key: str) -> None:
    """Have the process started that will copy the run; it makes the store ready meanwhile.

    Should this process die, that one copies how the run ended. Raises OSError.
    """
    _served(address).tell({"expect": run_key})


def upload(address: Address, run_key: str) -> Message:
    """Copy a finished run; return ``experiment_id``, or a reason as ``error``. Raises OSError."""
    answer = _served(address).ask({"push": run_key}, SECONDS)
    if answer is None:
        _end(now=True)
        return {"error": f"no answer within {SECONDS:g} s"}
    return answer


class _Kept:
    """The process that serves this one, and whom it serves: a fork has none."""

    child: Child | None = None
    address: Address | None = None
    pid: int = 0


def _served(address: Address) -> Child:
    kept = _Kept.child
    ours = (_Kept.address, _Kept.pid) == (address, os.getpid())
    if kept is not None and ours and kept.running:
        return kept
    _end()
    _Kept.child, _Kept.address, _Kept.pid = Child(_MODULE, address, {}), address, os.getpid()
    atexit.register(_end)
    return _Kept.child


def _end(*, now: bool = False) -> None:
    child, _Kept.child = _Kept.child, None
    atexit.unregister(_end)
    if child is not None and _Kept.pid == os.getpid():
        child.end(now=now)
