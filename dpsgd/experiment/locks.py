"""Locks between processes of one machine, and what becomes of them where there are none."""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from dpsgd.experiment.files import writing

WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""What a file system answers that has no locks, as some that are shared by machines have none."""


class Lock(enum.Enum):
    """How an attempt to take a lock ended; ``NONE``: the file system has no locks."""

    OURS = enum.auto()
    ANOTHERS = enum.auto()
    NONE = enum.auto()


@contextmanager
def lock(file: Path, patience: float) -> Iterator[Lock]:
    """Take the lock of ``file`` within ``patience`` seconds, until the context ends.

    The system ends it with the process, however that ends. Raises UnwritableError.
    """
    # Its own way without locks would know neither other machines nor signs of life.
    held = FileLock(file, timeout=patience, poll_interval=0.02, fallback_to_soft=False)
    found = Lock.OURS
    try:
        held.acquire()
    except Timeout:  # an OSError too
        found = Lock.ANOTHERS
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            with writing(file):
                raise
        found = Lock.NONE
    try:
        yield found
    finally:
        if found is Lock.OURS:
            held.release()
