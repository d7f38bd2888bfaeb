"""What the store holds of a run: at most one finished copy, whoever copied at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsgd.experiment.track.client import Store

_RANK = {"FINISHED": 0, "FAILED": 1, "KILLED": 1}
"""Which of several copies of a run stays. A copy that is RUNNING was never completed."""


@dataclass(frozen=True)
class Copy:
    """A complete copy: its id in the store, how the run ended, the copy's tags."""

    id: str
    status: str
    tags: Mapping[str, str]


def all_copies(store: Store) -> dict[str, list[Copy]]:
    """Return every complete copy by run key, asked for in pages."""
    found: dict[str, list[Copy]] = {}
    for run in store.runs("tags.kind = 'cell'"):
        if run.info.status in _RANK:
            key = run.data.tags.get("run_key", "")
            found.setdefault(key, []).append(Copy(run.info.run_id, run.info.status, run.data.tags))
    return found


def settled(store: Store, run_key: str) -> Copy | None:
    """Return the one complete copy of a run, None if there is none; delete all others.

    For whoever holds the lock: a copy that is RUNNING may be somebody's who is at it.
    """
    found = list(store.runs(f"tags.run_key = '{run_key}'"))
    complete = sorted((run for run in found if run.info.status in _RANK), key=_order)
    kept = complete[0] if complete else None
    for run in found:
        if run is not kept:
            store.client.delete_run(run.info.run_id)
    return kept and Copy(kept.info.run_id, kept.info.status, kept.data.tags)


def _order(run: Any) -> tuple[int, int, str]:
    # The same for everyone who looks, or two who do so at once would delete both.
    return _RANK[run.info.status], run.info.start_time, run.info.run_id
