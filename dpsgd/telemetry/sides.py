"""Which units are looked at one by one: some of every slice, and as many rare ones as others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsgd.telemetry.recorder import SliceKeys

_RARE = 0.5
"""Of the median label, where nothing is declared: labels with fewer units are rare."""


@dataclass(frozen=True)
class Sides:
    """``head`` and ``tail`` ``[units]`` bool; nobody is in both, and some may be in neither."""

    head: np.ndarray
    tail: np.ndarray

    def word(self, unit: int) -> str | None:
        """Return ``head``, ``tail``, or None."""
        return "tail" if self.tail[unit] else "head" if self.head[unit] else None


def sides_of(keys: SliceKeys, membership: np.ndarray) -> Sides:
    """Return who is rare, by the memberships ``[units, slices]`` in the slices ``keys``.

    The tail is the band of that name, or else all labels with at most half the units of the median
    label, or else the smallest slice, if it holds less than half of all. The head is the band of
    that name, or else everyone who is not rare.
    """
    tail = _union(membership, _tail(keys, membership))
    head = _union(membership, _named(keys, ("rarity", "head"))) & ~tail
    return Sides(head if head.any() else ~tail & membership[:, 0], tail)


def sample(membership: np.ndarray, sides: Sides, most: int) -> np.ndarray:
    """Return, ascending, at most ``most`` units ``int64``: half of them of the tail, if there are
    so many.

    Within a side every slice has its share, the smallest first, and what is left is spread over
    all. Positions are evenly spaced: no randomness is spent, and every look sees the same units.
    """
    rare = _spread(membership, sides.tail & membership[:, 0], most // 2)
    others = _spread(membership, ~sides.tail & membership[:, 0], most - len(rare))
    return np.sort(np.concatenate([rare, others]))


def _spread(membership: np.ndarray, pool: np.ndarray, most: int) -> np.ndarray:
    sizes = (membership & pool[:, np.newaxis]).sum(0)
    slices = [int(s) for s in np.argsort(sizes, kind="stable") if sizes[s]]
    chosen = np.zeros(len(pool), dtype=bool)
    share = max(1, most // max(1, len(slices)))
    for place in slices:
        inside = pool & membership[:, place]
        wanted = min(share - int((chosen & inside).sum()), most - int(chosen.sum()))
        chosen[_even(inside & ~chosen, wanted)] = True
    chosen[_even(pool & ~chosen, most - int(chosen.sum()))] = True
    return np.flatnonzero(chosen)


def _even(pool: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` evenly spaced positions of those that are True; all, if there are fewer."""
    found = np.flatnonzero(pool)
    if count <= 0 or not len(found):
        return found[:0]
    steps = np.linspace(0, len(found) - 1, min(count, len(found)))
    return found[np.unique(steps.round().astype(np.int64))]


def _tail(keys: SliceKeys, membership: np.ndarray) -> list[int]:
    named = _named(keys, ("rarity", "tail"))
    sizes = membership.sum(0)
    if any(sizes[place] for place in named):
        return named
    labels = [i for i, (kind, _) in enumerate(keys) if kind == "label" and sizes[i]]
    few = [i for i in labels if sizes[i] <= _RARE * np.median(sizes[labels])]
    others = [i for i, (kind, _) in enumerate(keys) if kind != "all" and sizes[i]]
    smallest = sorted(others, key=lambda i: sizes[i])[:1]
    return few or [i for i in smallest if sizes[i] < _RARE * sizes[0]]


def _named(keys: SliceKeys, wanted: tuple[str, str]) -> list[int]:
    return [i for i, key in enumerate(keys) if tuple(key) == wanted]


def _union(membership: np.ndarray, places: list[int]) -> np.ndarray:
    return membership[:, places].any(axis=1) & membership[:, 0]
