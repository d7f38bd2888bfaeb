"""Slices by how many training records the owner of a record has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class UserSize:
    """Slices ``users with <5 records``, ``users with 5–49 records``, ``users with ≥50 records``.

    A record counts by the number of its user's *training* records, in every split; a user who has
    none there is in the first slice. A split that knows of no users is in no slice.
    """

    edges: tuple[int, ...]
    kind: ClassVar[str] = "user_size"
    from_train: ClassVar[bool] = True
    """Sizes are numbers of training records, also where validation and test are sliced by them."""

    def __post_init__(self) -> None:
        increasing = all(low < high for low, high in pairwise(self.edges))
        if not self.edges or self.edges[0] < 1 or not increasing:
            allowed = "must be whole numbers of records from 1, strictly increasing"
            raise ConfigError("edges", list(self.edges), allowed)

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the slices, small users first, and membership: each owned record is in one.

        Raises ConfigError if the training records have no users.
        """
        if bundle.train.user is None:
            raise ConfigError(
                "", self.kind, "needs users, and the training records have none",
                "make users with users=dirichlet, or name the column that says whose a record is: "
                "data.user=<column>",
            )  # fmt: skip
        names = self._names()
        if split.user is None:
            return names, np.zeros((len(split), len(names)), dtype=bool)
        sizes = np.bincount(bundle.train.user, minlength=len(bundle.users))
        place = np.searchsorted(self.edges, sizes[split.user], side="right")
        return names, place[:, None] == np.arange(len(names))

    def _names(self) -> tuple[str, ...]:
        middle = (
            f"users with {low}–{high - 1} records"
            if high - low > 1
            else f"users with {_count(low)}"
            for low, high in pairwise(self.edges)
        )
        first, last = self.edges[0], self.edges[-1]
        return f"users with <{first} records", *middle, f"users with ≥{last} records"


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"
