"""Run a function in a child of a preloaded forkserver, which nothing can take the others with.

The child inherits no threads, sees no Ctrl-C (whoever started it decides), ends in order on
SIGTERM, and ends when its starter is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from dpsgd.experiment.terminated import Terminated

PRELOADED = "dpsgd.experiment.sweep.preload"
GRACE = 20.0
"""Seconds that a child has to end in order before it is killed."""
POLL = 0.25
LOST = 255
"""The exit code of a child whose forkserver died: what became of it is not known."""

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class ChildResult:
    """How a child ended.

    ``value`` is what its function returned, ``error`` its exception as (type, first line), and
    ``told`` what it said on the way; ``signal`` names what killed it, if anything did. Without
    ``value`` and ``error`` it ended without a word, by a signal or ``os._exit``.
    """

    pid: int
    exitcode: int
    value: Any
    error: tuple[str, str] | None
    told: dict[str, Any]

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, or None."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else None


def in_child(
    target: Callable[..., Any], *args: Any, log: Path, private: bool, end: Callable[[], bool]
) -> ChildResult:
    """Call ``target(tell, *args)`` in a child and return how that ended. Both must be importable.

    What the child prints, and the traceback of what it raises, is added to ``log``, which only
    its owner may read if it is ``private``. ``tell(facts)`` gives facts to whoever waits, which
    survive the child. ``end()`` is asked a few times a second: once it is true, the child is ended.
    """
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_enter, args=(theirs, log, private, target, args))
    with _without_main():
        process.start()
    theirs.close()
    messages = list(_messages(process, ours, _Asker(process, end)))
    process.join()
    code = LOST if process.exitcode is None else process.exitcode
    if code == LOST and process.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    said = dict(messages)
    told = {k: v for name, facts in messages if name == "told" for k, v in facts.items()}
    return ChildResult(process.pid or 0, code, said.get("value"), said.get("error"), told)


class _Asker:
    """Ends a child in order once that is asked for, and kills it if it does not end."""

    def __init__(self, process: ForkServerProcess, end: Callable[[], bool]) -> None:
        self._process, self._end = process, end
        self._asked_at: float | None = None

    def look(self) -> None:
        """Do what is due."""
        if self._asked_at is None and self._end():
            self._asked_at = time.monotonic()
            self._process.terminate()
        elif self._asked_at is not None and time.monotonic() - self._asked_at > GRACE:
            self._process.kill()


def _messages(
    process: ForkServerProcess, pipe: connection.Connection, asker: _Asker
) -> Iterator[tuple[str, Any]]:
    """Yield what the child sends until it has ended."""
    open_ = True
    while True:
        ready = connection.wait([process.sentinel, *([pipe] if open_ else [])], POLL)
        if pipe in ready:
            try:
                yield pipe.recv()
                continue
            except (EOFError, OSError):
                open_ = False
        if process.sentinel in ready:
            while open_ and pipe.poll():
                try:
                    yield pipe.recv()
                except (EOFError, OSError):
                    break
            return
        asker.look()


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide ``__main__`` from multiprocessing, which would run it again in every child: the
    command line, a launcher's worker, a test runner. Nothing that a child needs is there.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _enter(
    pipe: connection.Connection, log: Path, private: bool, target: Callable[..., Any], args: Any
) -> None:
    """Be the child: run, and say how it went. What it says is small, so that no pipe fills."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminated)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        _write_to(log, private)
        pipe.send(("value", target(lambda facts: pipe.send(("told", facts)), *args)))
    except BaseException as error:
        traceback.print_exc()
        pipe.send(("error", (type(error).__name__, _first_line(error))))
        code = 1
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # Whatever threads or exit handlers the cell left behind, it has ended.
    os._exit(code)


def _terminated(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what follows puts the folder in order
    raise Terminated


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _write_to(log: Path, private: bool) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if private else 0o666
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)
    for stream in (1, 2):
        os.dup2(opened, stream)
    os.close(opened)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:500] if lines else ""
