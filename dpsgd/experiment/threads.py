"""How many threads a cell computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Compute with ``count`` threads inside the block; None: as many as torch chooses."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count is not None:
            torch.set_num_threads(before)


def threads_each(workers: int) -> int:
    """Return the threads of each of ``workers`` processes that share what one would use alone."""
    return max(1, torch.get_num_threads() // workers)
