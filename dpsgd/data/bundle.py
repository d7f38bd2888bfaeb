"""What a data source hands over: three splits, with what is declared about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from torch import Tensor

from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class Split:
    """One split: ``inputs`` [n, ...], ``labels`` [n] int64, ``example`` [n] stable row ids of the
    source, and ``columns`` by name for slices (may be empty).
    """

    name: str
    inputs: Tensor
    labels: Tensor
    example: np.ndarray
    columns: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        lengths = {len(self.inputs), len(self.labels), len(self.example)}
        lengths |= {len(values) for values in self.columns.values()}
        if len(lengths) != 1:
            raise ConfigError("data", self.name, f"columns of unequal lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Bundle:
    """A data set ready to train on.

    ``keep`` is the declared share of each class that training keeps: configuration, and so public,
    not a count. ``notes`` say which statistics were computed from the data.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    keep: tuple[float, ...]
    holdout: Literal["public", "private"]
    fingerprint: str
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.keep) != len(self.classes):
            raise ConfigError("data.keep", self.keep, f"needs {len(self.classes)} shares")
        if len(set(self.classes)) != len(self.classes):
            # Slices and prediction columns go by these names.
            raise ConfigError(
                "data.classes", self.classes, "needs a name of its own for each class"
            )
        for split in (self.train, self.validation, self.test):
            if len(split) and not 0 <= int(split.labels.min()) <= int(split.labels.max()) < len(
                self.classes
            ):
                raise ConfigError("data", split.name, "has a label outside its classes")

    def split(self, name: str) -> Split:
        """Return train, validation or test; raises ConfigError for another name."""
        splits = {split.name: split for split in (self.train, self.validation, self.test)}
        if name not in splits:
            raise ConfigError("split", name, f"choose one of {', '.join(splits)}")
        return splits[name]


class DataSource(Protocol):
    """Settings that load one data set."""

    name: str
    seed: int

    def load(self, cache: Path) -> Bundle:
        """Read the data; ``cache`` is a folder for parsed copies."""
        ...


def fingerprint_of(splits: Sequence[Split]) -> str:
    """Return the SHA-256 (hex) of every array of every split, with dtype, shape and name."""
    digest = hashlib.sha256()
    for split in splits:
        arrays = [("", split.inputs.numpy()), ("", split.labels.numpy()), ("", split.example)]
        arrays += [(f" {name}", split.columns[name]) for name in sorted(split.columns)]
        for column, array in arrays:
            # The bytes of an object array are addresses, which differ from process to process.
            values = array.astype(np.str_) if array.dtype.hasobject else array
            digest.update(f"{split.name} {values.dtype} {values.shape}{column}".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
