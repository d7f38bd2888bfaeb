"""Deal records to splits so that every group has its share of each."""

from __future__ import annotations

import numpy as np


def deal(groups: np.ndarray, shares: tuple[float, ...], seed: int) -> np.ndarray:
    """Return the part ``[n]`` int64 of each record: k with probability ``shares[k]``, else the one
    after the last.

    ``groups`` are ``[n]`` integers from 0. In a group of m records each part has its share of them
    to within one record, and on average exactly, however small the group: the shuffled records
    stand at (0 + u)/m, (1 + u)/m, …, with one u uniform in [0, 1) a group (systematic sampling).
    """
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(groups))
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    sizes = np.bincount(groups)
    first = np.cumsum(sizes) - sizes
    own = groups[order]
    place = (np.arange(len(groups)) - first[own] + generator.random(len(sizes))[own]) / sizes[own]
    part = np.empty(len(groups), dtype=np.int64)
    part[order] = np.searchsorted(np.cumsum(shares), place, side="right")
    return part
