"""Which user owns each training record: as the data say, or a synthetic partition."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpsgd.data.bundle import Bundle
from dpsgd.errors import ConfigError

DIRICHLET_NOTE = "users are a synthetic Dirichlet partition"

_DIRICHLET_STREAM = 2
"""Keeps the partition's coins apart from those of split (seed alone) and tail (1)."""


class Users(Protocol):
    """Settings that give each training record its owner (``conf/users``)."""

    name: str

    def assign(self, bundle: Bundle, seed: int) -> Bundle:
        """Return the bundle with owners; ``seed`` is that of the data."""
        ...


@dataclass(frozen=True)
class Given:
    """Owners as the data give them; none if they give none."""

    name: str

    def assign(self, bundle: Bundle, seed: int) -> Bundle:
        """Return the bundle as it is."""
        del seed
        return bundle


@dataclass(frozen=True)
class Dirichlet:
    """Deals the training records to ``count`` synthetic users with unlike mixtures of classes.

    For each class k, shares p_k ~ Dir(α, …, α) over the users, and the class's records, shuffled,
    are cut at the cumulated shares: Yurochkin et al., "Bayesian Nonparametric Federated Learning of
    Neural Networks" (ICML 2019, section 4); the "distribution-based label imbalance" of Li et al.,
    "Federated Learning on Non-IID Data Silos" (ICDE 2022, section 4). Small α: few users hold a
    class; α → ∞: all users look alike.
    """

    name: str
    count: int
    alpha: float

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError("count", self.count, "must be at least 1, the number of users")
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ConfigError("alpha", self.alpha, "must be a finite number above 0")

    def assign(self, bundle: Bundle, seed: int) -> Bundle:
        """Return the bundle with owners of the training records, which replace any given ones.

        Users without a record are users all the same. Validation and test records have no owner.
        Raises ConfigError for data without classes.
        """
        if bundle.task != "classes":
            raise ConfigError("users", self.name, f"needs classes; {bundle.name} has none")
        owners = self._owners(bundle.train.labels.numpy(), len(bundle.classes), seed)
        train = replace(bundle.train, user=owners)
        validation, test = replace(bundle.validation, user=None), replace(bundle.test, user=None)
        return replace(
            bundle, train=train, validation=validation, test=test,
            users=tuple(f"user {i}" for i in range(self.count)),
            notes=(*bundle.notes, DIRICHLET_NOTE),
        )  # fmt: skip

    def _owners(self, labels: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
        generator = np.random.default_rng([seed, _DIRICHLET_STREAM])
        owners = np.empty(len(labels), dtype=np.int64)
        for label in range(n_classes):
            shares = generator.dirichlet(np.full(self.count, self.alpha))
            rows = generator.permutation(np.flatnonzero(labels == label))
            cuts = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
            for user, members in enumerate(np.split(rows, cuts)):
                owners[members] = user
        return owners
