"""A line for each cell of a sweep as it ends, whoever launched it and wherever it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dpsgd.experiment.sweep.ended import jobs_ended, read_ended

POLL = 0.3


@contextmanager
def following(
    sweep: Path, labels: Mapping[str, str], show: Callable[[str], None]
) -> Iterator[None]:
    """Show what the jobs of ``sweep``, which are called ``labels``, leave while the block runs."""
    done = threading.Event()
    seen: set[str] = set()

    def look() -> None:
        for job in jobs_ended(sweep):
            if job in seen:
                continue
            ended = read_ended(sweep, job)
            if ended is not None:
                seen.add(job)
                show(ended.line or f"{ended.status}  {labels.get(job, job)}: {ended.error}")

    def follow() -> None:
        while not done.wait(POLL):
            look()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        look()
