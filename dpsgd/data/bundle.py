"""What a data source hands over: three splits, with what is declared about them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from torch import Tensor

from dpsgd.errors import ConfigError

IGNORED = -100
"""The label of a place without a token; torch's losses ignore it."""


@dataclass(frozen=True)
class Split:
    """One split of ``n`` records.

    Attributes:
        name: train, validation or test.
        inputs: ``[n, ...]``.
        labels: ``[n]`` int64; of task ``tokens`` ``[n, T]``, ``IGNORED`` where there is no token.
        example: ``[n]`` stable row ids of the source.
        columns: by name, ``[n]`` values for slices; may be empty.
        user: ``[n]`` int64, the position in ``Bundle.users`` of each record's one owner, or None
            if the data know of no users.

    """

    name: str
    inputs: Tensor
    labels: Tensor
    example: np.ndarray
    columns: Mapping[str, np.ndarray]
    user: np.ndarray | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.inputs), len(self.labels), len(self.example)}
        lengths |= {len(values) for values in self.columns.values()}
        lengths |= {len(self.user)} if self.user is not None else set()
        if len(lengths) != 1:
            raise ConfigError("data", self.name, f"columns of unequal lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A data set ready to train on.

    ``keep`` is the declared share of each class that training keeps: configuration, and so public,
    not a count; empty where nothing is declared (task ``tokens``). ``notes`` say which statistics
    were computed from the data. ``users`` names every user, those without a record included.
    ``vocabulary`` is the number of ids that inputs are made of, the last of which is padding; 0 for
    inputs that are numbers. ``fingerprint`` is what :func:`with_fingerprint` gives it.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    keep: tuple[float, ...]
    holdout: Literal["public", "private"]
    notes: tuple[str, ...]
    task: Literal["classes", "tokens"] = "classes"
    users: tuple[str, ...] = ()
    vocabulary: int = 0
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if self.task == "classes" and len(self.keep) != len(self.classes):
            raise ConfigError("data.keep", self.keep, f"needs {len(self.classes)} shares")
        if len(set(self.classes)) != len(self.classes):
            # Slices and prediction columns go by these names.
            raise ConfigError(
                "data.classes", self.classes, "needs a name of its own for each class"
            )
        for split in (self.train, self.validation, self.test):
            known = split.labels[split.labels != IGNORED] if self.task == "tokens" else split.labels
            if len(known) and not 0 <= int(known.min()) <= int(known.max()) < len(self.classes):
                raise ConfigError("data", split.name, "has a label outside its classes")
            owners = split.user if split.user is not None else np.zeros(0, dtype=np.int64)
            if len(owners) and not 0 <= owners.min() <= owners.max() < len(self.users):
                raise ConfigError("data", split.name, "has a record of an unknown user")

    def split(self, name: str) -> Split:
        """Return train, validation or test; raises ConfigError for another name."""
        splits = {split.name: split for split in (self.train, self.validation, self.test)}
        if name not in splits:
            raise ConfigError("split", name, f"choose one of {', '.join(splits)}")
        return splits[name]


def holdout_is_public(bundle: Bundle) -> bool:
    """Whether what is read from validation and test may be shown: they are declared public, and
    are not known to be about users, who may own training records too.
    """
    held_out = (bundle.validation, bundle.test)
    return bundle.holdout == "public" and all(split.user is None for split in held_out)


class DataSource(Protocol):
    """Settings that load one data set."""

    name: str
    seed: int

    def load(self, cache: Path) -> Bundle:
        """Read the data; ``cache`` is a folder for parsed copies."""
        ...


def with_fingerprint(bundle: Bundle) -> Bundle:
    """Return ``bundle`` with the SHA-256 (hex) of all that it says of itself, its ``notes`` apart:
    other data under the same run key would share their noise.
    """
    facts = [fingerprint_of([bundle.train, bundle.validation, bundle.test]), bundle.users,
             bundle.classes, bundle.vocabulary, bundle.task, bundle.keep]  # fmt: skip
    return replace(bundle, fingerprint=hashlib.sha256(json.dumps(facts).encode()).hexdigest())


def fingerprint_of(splits: Sequence[Split]) -> str:
    """Return the SHA-256 (hex) of every array of every split, with dtype, shape and name."""
    digest = hashlib.sha256()
    for split in splits:
        arrays = [("", split.inputs.numpy()), ("", split.labels.numpy()), ("", split.example)]
        arrays += [(f" {name}", split.columns[name]) for name in sorted(split.columns)]
        arrays += [("\n user", split.user)] if split.user is not None else []
        for column, array in arrays:
            # The bytes of an object array are addresses, which differ from process to process.
            values = array.astype(np.str_) if array.dtype.hasobject else array
            digest.update(f"{split.name} {values.dtype} {values.shape}{column}".encode())
            digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
            if array.dtype.hasobject:
                digest.update(_told_apart(array))
    return digest.hexdigest()


def _told_apart(cells: np.ndarray) -> bytes:
    """Return what letters do not tell of objects: None from "None", 1 from "1", a word from one
    with a zero byte behind it. Nothing of plain words.
    """
    odd = [
        (place, type(cell).__qualname__, repr(cell))
        for place, cell in enumerate(cells.ravel().tolist())
        if type(cell) is not str or cell.endswith("\0")
    ]
    return json.dumps(odd).encode() if odd else b""
