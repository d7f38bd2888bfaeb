"""What time it is, as files state it."""

from __future__ import annotations

import datetime


def now() -> str:
    """Return the time, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
