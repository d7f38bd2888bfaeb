"""All slices of a split in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.schema import SLICE_KINDS
from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError, did_you_mean
from dpsgd.slices.kind import Headed, SliceKind
from dpsgd.slices.rarity import Rarity


@dataclass(frozen=True)
class SliceSet:
    """Which slices a run reports (``conf/slices``).

    ``kinds`` may hold several of one kind, each under a key of its own choice. ``most_memberships``
    declares in how many slices, besides that of all, one record can be; null where nothing is
    declared. Declared, because a bound taken from the records would be a release.
    """

    name: str
    kinds: Mapping[str, SliceKind]
    most_memberships: int | None

    def __post_init__(self) -> None:
        for key, kind in self.kinds.items():
            if not isinstance(kind, SliceKind):
                raise ConfigError(
                    f"kinds.{key}", kind, "must be a kind of slice, with a _target_",
                    f"to take it away write ~slices.kinds.{key}",
                )  # fmt: skip
        if self.most_memberships is not None and self.most_memberships < 1:
            raise ConfigError(
                "most_memberships", self.most_memberships, "must be 1 or more, or null"
            )

    def table(self, split: Split, bundle: Bundle) -> SliceTable:
        """Return the slices of one split; slice all of kind all comes first.

        Raises ConfigError for a kind that files have no word for, for a slice named twice, and for
        a training record in more slices than ``most_memberships``.
        """
        keys, headings = [("all", "all")], [("all", "all", "all")]
        parts = [np.ones((len(split), 1), dtype=bool)]
        for key, kind in self.kinds.items():
            names, membership = self._assign(key, split, bundle)
            heads = kind.headings(bundle) if isinstance(kind, Headed) else [key] * len(names)
            keys += [(kind.kind, name) for name in names]
            headings += [(key, kind.kind, heading) for heading in heads]
            parts.append(membership)
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ConfigError("slices.kinds", "/".join(twice), "a slice is named twice")
        membership = np.concatenate(parts, axis=1)
        if split.name == "train":
            self._check_most(split, membership)
        return SliceTable(tuple(keys), membership, _told_apart(headings))

    def part(self, name: str, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return names ``k`` and membership ``[n, k]`` of the key ``name`` of ``kinds``.

        Raises ConfigError if there is no such key, and if a record is not in exactly one slice.
        """
        if name not in self.kinds:
            known = ", ".join(self.kinds) or "none"
            missing = f"no such key; there are {known}{did_you_mean(name, self.kinds)}"
            raise ConfigError("slices.kinds", name, missing)
        names, membership = self._assign(name, split, bundle)
        times = membership.sum(axis=1)
        for row in np.flatnonzero(times != 1)[:1]:
            raise ConfigError(
                "slices.kinds", name,
                f"must put every record in exactly one slice; example {split.example[row]} of "
                f"{split.name} is in {times[row]}",
            )  # fmt: skip
        return names, membership

    def kinds_of_train(self) -> set[str]:
        """Return the kinds whose slices, of any split, are made from training records."""
        return {k.kind for k in self.kinds.values() if getattr(k, "from_train", False)}

    def tail_classes(self, bundle: Bundle) -> tuple[int, ...]:
        """Return the labels of the tail band; empty if no rarity bands are asked for."""
        for kind in self.kinds.values():
            if isinstance(kind, Rarity):
                return kind.tail_classes(bundle)
        return ()

    def _assign(self, key: str, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        kind = self.kinds[key]
        if kind.kind not in SLICE_KINDS or kind.kind == "all":
            allowed = ", ".join(known for known in SLICE_KINDS if known != "all")
            raise ConfigError("slices.kinds", kind.kind, f"kinds of slice are {allowed}")
        try:
            return kind.assign(split, bundle)
        except ConfigError as error:
            raise error.under(f"slices.kinds.{key}") from None

    def _check_most(self, split: Split, membership: np.ndarray) -> None:
        times = membership[:, 1:].sum(axis=1)
        if self.most_memberships is not None and (times > self.most_memberships).any():
            row = int(times.argmax())
            raise ConfigError(
                "slices.most_memberships", self.most_memberships,
                f"example {split.example[row]} is in {times[row]} slices besides all",
            )  # fmt: skip


@dataclass(frozen=True)
class SliceTable:
    """``keys`` (kind, name) of S slices, boolean ``membership`` [n, S], and the ``headings`` of the
    columns that hold them in a file; without headings, the kinds.
    """

    keys: tuple[tuple[str, str], ...]
    membership: np.ndarray
    headings: tuple[str, ...] = ()

    def columns(self) -> dict[str, list[str | None]]:
        """Return the slice name of every example, heading by heading, without slice all.

        Under one heading the last of overlapping slices is named.
        """
        columns: dict[str, list[str | None]] = {}
        headings = self.headings or tuple(kind for kind, _ in self.keys)
        for i, (heading, (kind, name)) in enumerate(zip(headings, self.keys, strict=True)):
            if kind == "all":
                continue
            column = columns.setdefault(heading, [None] * len(self.membership))
            for row in np.flatnonzero(self.membership[:, i]):
                column[row] = name
        return columns


def _told_apart(found: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return a heading for each (key of kinds, kind, heading wished for).

    A column of the data may be called like a key, or like a list of ids: whoever's key it is keeps
    the heading, and the others put their kind before it (``column label``).
    """
    owners: dict[str, set[str]] = {}
    for key, _, heading in found:
        owners.setdefault(heading, set()).add(key)
    return tuple(
        heading if heading == key or len(owners[heading]) == 1 else f"{kind} {heading}"
        for key, kind, heading in found
    )
