"""Small bundles with any labels, class names and declared shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from dpsgd.data.bundle import Bundle, Split


def split(
    labels: Sequence[int], name: str = "train", columns: Mapping[str, np.ndarray] | None = None
) -> Split:
    n = len(labels)
    inputs = torch.arange(2 * n, dtype=torch.float32).reshape(n, 2)
    return Split(
        name, inputs, torch.tensor(labels, dtype=torch.int64), np.arange(n) + 100, columns or {}
    )


def bundle(
    labels: Sequence[int],
    keep: Sequence[float],
    classes: Sequence[str] | None = None,
    test: Sequence[int] = (0,),
) -> Bundle:
    return Bundle(
        name="planted",
        train=split(labels),
        validation=split((), "validation"),
        test=split(test, "test"),
        classes=tuple(classes or map(str, range(len(keep)))),
        keep=tuple(keep),
        holdout="public",
        fingerprint="0" * 64,
        notes=(),
    )
