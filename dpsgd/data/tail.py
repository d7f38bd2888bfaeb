"""Long tails by declaration: which share of each class the training split keeps."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dpsgd.errors import ConfigError

Profile = Literal["one_class", "exponential"]


def keep_shares(
    profile: Profile, keep: float, tail_class: str | None, classes: tuple[str, ...]
) -> tuple[float, ...]:
    """Return the share of each class to keep, from configuration alone (so that it is public).

    ``one_class``: ``keep`` of ``tail_class``, everything else whole. ``exponential``: class k of K
    keeps ``keep``^(k/(K−1)), the profile of Cui et al. (CVPR 2019). ``keep`` 1 is no tail and needs
    no ``tail_class``. Raises ConfigError.
    """
    if not 0 < keep <= 1:
        raise ConfigError("keep", keep, "must be above 0 and at most 1, the share of a class kept")
    if profile == "exponential":
        last = max(len(classes) - 1, 1)
        return tuple(keep ** (k / last) for k in range(len(classes)))
    if tail_class is None and keep == 1:
        return (1.0,) * len(classes)
    if tail_class not in classes:
        raise ConfigError("class", tail_class, f"no such class; choose one of {', '.join(classes)}")
    return tuple(keep if name == tail_class else 1.0 for name in classes)


def split_by_class(
    labels: np.ndarray, shares: tuple[float, float, float], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sorted row positions of train, validation and test, each class split alike."""
    generator = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        first = round(shares[0] * len(rows))
        second = first + round(shares[1] * len(rows))
        for part, piece in zip(parts, np.split(rows, [first, second]), strict=True):
            part.append(piece)
    train, validation, test = (np.sort(np.concatenate(part)) for part in parts)
    return train, validation, test


def thin(rows: np.ndarray, labels: np.ndarray, shares: tuple[float, ...], seed: int) -> np.ndarray:
    """Return the sorted rows that remain when each class keeps its share (rounded) at random."""
    generator = np.random.default_rng([seed, 1])
    kept = [
        generator.permutation(of_class)[: round(share * len(of_class))]
        for label, share in enumerate(shares)
        for of_class in [rows[labels[rows] == label]]
    ]
    return np.sort(np.concatenate(kept))
