"""Whether a process of this machine still runs, told from a later one of the same number."""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path


def is_running(pid: int, ticks: str = "") -> bool:
    """Whether the process ``pid`` runs, and is the one that started at ``ticks`` (empty: any).

    One that has ended, and that nobody has waited for yet, does not.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # it is somebody else's
    dead = _stat(pid)[:1] in (["Z"], ["X"])  # ended, and not yet waited for
    return pid > 0 and not dead and ticks in ("", ticks_of(pid))


def ticks_of(pid: int) -> str:
    """Return when a process started, in ticks since the kernel did; empty if that is not known."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


@functools.cache
def kernel() -> str:
    """Return a name for this start of this machine; that of its host where there is no better."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def visible() -> str:
    """Return a name for the processes that this one can see: each container has its own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/<pid>/stat`` behind the name, which may hold spaces: proc(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
