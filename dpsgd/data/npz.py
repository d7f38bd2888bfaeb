"""Images in an npz file of four arrays, the layout of Keras's ``mnist.npz``."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dpsgd.data.bundle import Bundle, Split
from dpsgd.data.notes import COMPUTED
from dpsgd.data.pixels import FLOATS, PIXELS, channels_first
from dpsgd.data.source import Parts, TailedSource
from dpsgd.errors import ConfigError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class NpzImages(TailedSource):
    """``x_train``, ``y_train``, ``x_test`` and ``y_test`` of one npz file.

    Images are ``[n, h, w]`` or ``[n, h, w, c]``, uint8 or float; labels integers or texts, ``[n]``
    or ``[n, 1]``. The share ``validation`` of each class of ``x_train`` validates. ``classes``
    names the labels 0, 1, …; null takes the training labels themselves.
    """

    path: str
    classes: tuple[str | int, ...] | None
    validation: float

    def __post_init__(self) -> None:
        super().__post_init__()
        Parts(1 - self.validation, self.validation, test_given=True)
        if self.classes is not None:
            self.shares(tuple(map(str, self.classes)))

    def load(self, cache: Path) -> Bundle:
        """Read, split and thin. Example ids are rows of ``x_train``, then rows of ``x_test``.

        Raises ConfigError for a file or an array that cannot be used.
        """
        del cache
        arrays = _read(self.path)
        pixels = [channels_first(arrays[x], "data.path", x) for x in ("x_train", "x_test")]
        shapes = [list(images.shape[1:]) for images in pixels]
        if shapes[0] != shapes[1]:
            why = f"images of x_train are {shapes[0]} (c, h, w), of x_test {shapes[1]}"
            raise ConfigError("data.path", self.path, why)
        labels, classes = _labels(arrays, self.classes)
        try:
            shares = self.shares(classes)
        except ConfigError as error:
            raise error.under("data") from None
        parts = Parts(1 - self.validation, self.validation, test_given=True)
        images = np.concatenate(pixels)
        splits = [
            Split(name, torch.from_numpy(images[rows]), torch.from_numpy(labels[rows]), rows, {})
            for name, rows in self.rows(labels, shares, parts, len(pixels[1])).items()
        ]
        note = PIXELS if arrays["x_train"].dtype == np.uint8 else FLOATS
        notes = (note,) if self.classes is not None else (note, f"names of the classes {COMPUTED}")
        return Bundle(
            name=self.name, train=splits[0], validation=splits[1], test=splits[2],
            classes=classes, keep=shares, holdout=self.holdout, notes=notes,
        )  # fmt: skip


def _read(path: str) -> dict[str, np.ndarray]:
    if path == "???":
        raise ConfigError("data.path", path, "is required: the path of an npz file")
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError("data.path", path, "no such file; give the path of an npz file")
    try:
        # Pickled arrays would run code of whoever wrote the file.
        with np.load(file, allow_pickle=False) as stored:
            missing = [name for name in ARRAYS if name not in stored]
            if missing:
                why = f"has no {missing[0]}; it has {', '.join(stored)}"
                raise ConfigError("data.path", path, why)
            arrays = {name: stored[name] for name in ARRAYS}
    except ConfigError:
        raise
    except (ValueError, OSError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError("data.path", path, f"cannot be read as npz: {error}") from error
    for images, labels in (("x_train", "y_train"), ("x_test", "y_test")):
        if arrays[labels].ndim == 2 and arrays[labels].shape[1] == 1:
            arrays[labels] = arrays[labels][:, 0]
        n = arrays[images].shape[0] if arrays[images].ndim else 0
        if arrays[labels].shape != (n,):
            why = f"{labels} has shape {list(arrays[labels].shape)}; {images} has {n} images"
            raise ConfigError("data.path", path, why)
        if arrays[labels].dtype.kind not in "iuU":
            why = f"{labels} has dtype {arrays[labels].dtype}; needs integers or texts"
            raise ConfigError("data.path", path, why)
    return arrays


def _labels(
    arrays: dict[str, np.ndarray], declared: tuple[str | int, ...] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels ``[n]`` int64 of x_train, then of x_test, and the names of the classes."""
    train, test = arrays["y_train"], arrays["y_test"]
    if declared is not None and train.dtype.kind == "U":
        known = np.array(list(map(str, declared)))
    else:
        known = np.unique(train) if declared is None else np.arange(len(declared))
    for name, labels in (("y_train", train), ("y_test", test)):
        unknown = np.flatnonzero(~np.isin(labels, known))
        if len(unknown):
            where = f"{name} row {unknown[0] + 1} has the label {labels[unknown[0]]}"
            allowed = "y_train has not" if declared is None else "data.classes does not name"
            value = None if declared is None else ", ".join(map(str, declared))
            raise ConfigError("data.classes", value, f"{where}, which {allowed}")
    if len(known) < 2:
        raise ConfigError("data.classes", ", ".join(map(str, known)), "needs two classes or more")
    order = np.argsort(known)
    both = np.concatenate([train, test])
    codes = order[np.searchsorted(known, both, sorter=order)].astype(np.int64)
    return codes, tuple(map(str, known if declared is None else declared))
