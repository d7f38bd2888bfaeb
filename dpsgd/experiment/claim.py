"""One process a run: a claim around everything that is written for it."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpsgd.errors import BusyError
from dpsgd.experiment.files import writing
from dpsgd.experiment.holder import (
    Holder,
    claim_file,
    read_holder,
    silence_of,
    stated,
    text_of,
    this_process,
)
from dpsgd.experiment.locks import Lock, lock

log = logging.getLogger(__name__)

BEAT = 5.0
"""Seconds between two signs of life of whoever has a run."""

PATIENCE = 0.5
"""Seconds to wait for a lock that another process may only just be letting go."""

LOCK = ".lock"


class Claim:
    """A run that this process has."""

    def __init__(self, folder: Path, mine: Holder) -> None:
        self._folder, self._mine = folder, mine

    def check(self) -> None:
        """Raise BusyError if another process took the run over, this one having been silent, and
        so if it let it go again: what is in the folder is then that one's.
        """
        now = read_holder(claim_file(self._folder))
        if now is None or now.token != self._mine.token:
            raise _busy(self._folder, now)


@contextmanager
def claim(folder: Path) -> Iterator[Claim]:
    """Hold the run of ``folder``, so that no other process trains it, until the context ends.

    On one machine a lock decides, which ends with its process however that ends. A process of
    another machine is known by the file of its claim, which it touches every few seconds: silent
    for ``SILENT`` seconds, it is gone. On a file system without locks that file alone decides; it
    names the process and when it started, which tells a dead one from a later one of the same pid.
    A run of a process that is gone is taken over, and a line is logged.

    Raises BusyError, which names who has it, and UnwritableError.
    """
    file = claim_file(folder)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder) as locked:
        mine = _taken(folder, locked)
        done = threading.Event()
        beating = threading.Thread(target=_beat, args=(file, done), daemon=True)
        beating.start()
        try:
            yield Claim(folder, mine)
        finally:
            done.set()
            beating.join()
            _let_go(file, mine)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a run; False on a file system without locks. Raises BusyError."""
    with lock(claim_file(folder).with_suffix(LOCK), PATIENCE) as found:
        if found is Lock.ANOTHERS:
            raise _busy(folder, read_holder(claim_file(folder)))
        yield found is Lock.OURS


def _taken(folder: Path, locked: bool) -> Holder:
    """Write this process into the claim of a run, for which one who is gone is taken out of it."""
    file, mine = claim_file(folder), this_process()
    if not file.exists():
        _check_stated(folder, locked)
    while not _made(file, mine):
        holder = read_holder(file)
        silence = silence_of(file, _now_at(file))
        if holder is None:  # torn: it is just being written, or its disk was full
            has_it = silence < BEAT and not locked
        else:
            has_it = _has_it(holder, silence, locked)
        if has_it:
            raise _busy(folder, holder)
        _take_out(folder, holder)
        if holder is not None:
            _say(folder, holder)
    return mine


def _check_stated(folder: Path, locked: bool) -> None:
    """Raise BusyError if ``status.json`` alone says who has a run, and that process lives."""
    found = stated(folder)
    if found is not None and _has_it(*found, locked):
        raise _busy(folder, found[0])
    if found is not None:
        _say(folder, found[0])


def _has_it(holder: Holder, silence: float, locked: bool) -> bool:
    """Whether a process has a run still.

    Of a process that can be looked up the lock says no more; of one of this machine that cannot,
    as in another container, it says that it is gone, since the lock is ours.
    """
    if locked and holder.is_here and not holder.can_be_looked_up:
        return False
    return holder.lives(silence)


def _say(folder: Path, gone: Holder) -> None:
    log.warning(
        "%s: taken over from process %d on %s, which had it since %s and is gone",
        folder, gone.pid, gone.host, gone.since,
    )  # fmt: skip


def _made(file: Path, mine: Holder) -> bool:
    """Write a claim unless there is one. Raises UnwritableError."""
    with writing(file):
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as opened:
                opened.write(text_of(mine))
        except OSError:
            file.unlink(missing_ok=True)
            raise
    return True


def _take_out(folder: Path, gone: Holder | None) -> None:
    """Remove the claim of a process that is gone. Raises BusyError if another was faster."""
    file = claim_file(folder)
    taking = file.with_suffix(".taking")
    if BEAT < silence_of(taking, _now_at(file)) < math.inf:
        taking.unlink(missing_ok=True)  # of one that was killed while it did this
    if not _made(taking, this_process()):
        raise _busy(folder, None)
    try:
        now = read_holder(file)
        if now != gone:
            raise _busy(folder, now)
        file.unlink(missing_ok=True)
    finally:
        taking.unlink(missing_ok=True)


def _now_at(file: Path) -> float:
    """Return what the file system calls now: the clock of the host that serves it."""
    probe = file.with_suffix(f".{this_process().token}")
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink()


def _beat(file: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with suppress(OSError):
            os.utime(file)


def _let_go(file: Path, mine: Holder) -> None:
    holder = read_holder(file)
    if holder is not None and holder.token == mine.token:
        with suppress(OSError):
            file.unlink()
            # Whoever waits for the lock sees that its file is gone, and makes another.
            file.with_suffix(LOCK).unlink()


def _busy(folder: Path, holder: Holder | None) -> BusyError:
    if holder is None:
        return BusyError(str(folder), None, None, None)
    return BusyError(str(folder), holder.pid, holder.host, holder.since)
