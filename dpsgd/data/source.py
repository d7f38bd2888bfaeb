"""What all data sources with classes share: a split by class and a declared long tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpsgd.data.tail import Profile, keep_shares, split_by_class, thin
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class TailedSource:
    """Settings of every data set with classes.

    ``seed`` is for split and tail only, so that runs of other seeds share their test examples.
    Training keeps a declared share of some classes: see :func:`dpsgd.data.tail.keep_shares`.
    """

    name: str
    seed: int
    class_: str | int | None
    keep: float
    profile: Profile
    holdout: Literal["public", "private"]

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ConfigError("seed", self.seed, "must be 0 or more")
        if self.class_ is not None:
            # A class called 1 is the class "1", whichever way yaml or the command line reads it.
            object.__setattr__(self, "class_", str(self.class_))

    def shares(self, classes: tuple[str, ...]) -> tuple[float, ...]:
        """Return the declared share of each class that training keeps. Raises ConfigError."""
        tail = None if self.class_ is None else str(self.class_)
        return keep_shares(self.profile, self.keep, tail, classes)

    def rows(
        self, labels: np.ndarray, shares: tuple[float, ...], parts: Parts, n_test: int | None = None
    ) -> dict[str, np.ndarray]:
        """Return sorted row positions by split; only the training rows are thinned.

        ``labels`` ``[n]`` int64. The last ``n_test`` rows are the test split if it is given;
        otherwise it is what ``parts`` leave. Raises ConfigError for a split without records.
        """
        if n_test is None:
            rest = 1 - parts.train - parts.validation
            train, validation, test = split_by_class(
                labels, (parts.train, parts.validation, rest), self.seed
            )
        else:
            n = len(labels) - n_test
            whole = parts.train + parts.validation
            train, validation, left = split_by_class(
                labels[:n], (parts.train / whole, parts.validation / whole, 0.0), self.seed
            )
            # Rounding may leave a record of a class over.
            train, test = np.sort(np.concatenate([train, left])), np.arange(n, len(labels))
        rows = {
            "train": thin(train, labels, shares, self.seed),
            "validation": validation,
            "test": test,
        }
        for name, members in rows.items():
            if not len(members):
                why = f"no record is left for {name} ({len(labels)} records in all)"
                raise ConfigError("data.validation", parts.validation, why)
        return rows


@dataclass(frozen=True)
class Parts:
    """Shares of the records for training and validation; the rest is for the test.

    ``test_given``: the test split has a file of its own, and only their ratio matters.
    """

    train: float
    validation: float
    test_given: bool

    def __post_init__(self) -> None:
        for key in ("validation", "train"):
            if not 0 < getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "must be between 0 and 1, a share")
        whole = self.train + self.validation
        if not self.test_given and whole >= 1:
            raise ConfigError("validation", self.validation, "train + validation must be below 1")
        # A sum of two decimals may miss 1 by a rounding error.
        if whole > 1 + 1e-9:
            raise ConfigError("validation", self.validation, "train + validation is above 1")
