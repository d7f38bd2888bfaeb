"""All slices of a split in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.schema import SLICE_KINDS
from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError
from dpsgd.slices.kind import SliceKind
from dpsgd.slices.rarity import Rarity


@dataclass(frozen=True)
class SliceSet:
    """Which kinds of slice a run reports (``conf/slices``)."""

    name: str
    kinds: Mapping[str, SliceKind]

    def table(self, split: Split, bundle: Bundle) -> SliceTable:
        """Return the slices of one split; slice all of kind all comes first.

        Raises ConfigError for a kind that files have no word for, and for a slice named twice.
        """
        keys = [("all", "all")]
        parts = [np.ones((len(split), 1), dtype=bool)]
        for kind in self.kinds.values():
            if kind.kind not in SLICE_KINDS or kind.kind == "all":
                allowed = ", ".join(known for known in SLICE_KINDS if known != "all")
                raise ConfigError("slices.kinds", kind.kind, f"kinds of slice are {allowed}")
            names, membership = kind.assign(split, bundle)
            keys += [(kind.kind, name) for name in names]
            parts.append(membership)
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ConfigError("slices.kinds", "/".join(twice), "a slice is named twice")
        return SliceTable(tuple(keys), np.concatenate(parts, axis=1))

    def tail_classes(self, bundle: Bundle) -> tuple[int, ...]:
        """Return the labels of the tail band; empty if no rarity bands are asked for."""
        for kind in self.kinds.values():
            if isinstance(kind, Rarity):
                return kind.tail_classes(bundle)
        return ()


@dataclass(frozen=True)
class SliceTable:
    """``keys`` (kind, name) of S slices, and boolean ``membership`` [n, S]."""

    keys: tuple[tuple[str, str], ...]
    membership: np.ndarray

    def columns(self) -> dict[str, list[str | None]]:
        """Return each kind's slice name by example; the last one where slices overlap."""
        columns: dict[str, list[str | None]] = {}
        for i, (kind, name) in enumerate(self.keys):
            if kind == "all":
                continue
            column = columns.setdefault(kind, [None] * len(self.membership))
            for row in np.flatnonzero(self.membership[:, i]):
                column[row] = name
        return columns
