"""What became of a push."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Pushed:
    """What became of the runs that have ended.

    ``copied``: run keys that are new in the store, or ended otherwise than it knew. ``already``:
    how many it had. ``failed``: what was wrong, by run key. ``left``: run keys that were not tried,
    because of ``error``, what the store said, or because the time was up. ``page``: what to open.
    """

    copied: tuple[str, ...]
    already: int
    failed: Mapping[str, str]
    left: tuple[str, ...]
    error: str | None
    page: str | None

    @property
    def complete(self) -> bool:
        """Whether the store has everything."""
        return not self.failed and not self.left and self.error is None
