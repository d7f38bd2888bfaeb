"""A line for each cell of a sweep as it ends, whoever launched it and wherever it ran; what befalls
many alike is said once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dpsgd.experiment.sweep.ended import NOT_RUN, jobs_ended, read_ended
from dpsgd.experiment.sweep.failed import number

POLL = 0.3


@contextmanager
def following(
    sweep: Path, labels: Mapping[str, str], show: Callable[[str], None]
) -> Iterator[None]:
    """Show what the jobs of ``sweep``, which are called ``labels``, leave while the block runs.

    An error that several cells end with is shown of the first, and then how often it came again;
    cells that were never started are left to the table at the end.
    """
    done = threading.Event()
    seen: set[str] = set()
    again: Counter[str] = Counter()

    def look() -> None:
        for job in jobs_ended(sweep):
            ended = None if job in seen else read_ended(sweep, job)
            if ended is None:
                continue
            seen.add(job)
            if ended.status == NOT_RUN:
                continue
            if ended.line:
                show(ended.line)
                continue
            again[ended.error] += 1
            if again[ended.error] == 1:
                show(f"{ended.status}  {labels.get(job, job)}: {ended.error}")

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
        for error, count in again.items():
            if count > 1:
                show(f"{number(count - 1, 'more cell')}: {error}")
