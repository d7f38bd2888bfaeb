"""Small bundles with any labels, class names, declared shares, columns and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from dpsgd.data.bundle import Bundle, Split


def split(
    labels: Sequence[int],
    name: str = "train",
    columns: Mapping[str, np.ndarray] | None = None,
    user: Sequence[int] | None = None,
) -> Split:
    n = len(labels)
    inputs = torch.arange(2 * n, dtype=torch.float32).reshape(n, 2)
    return Split(
        name,
        inputs,
        torch.tensor(labels, dtype=torch.int64),
        np.arange(n) + 100,
        columns or {},
        None if user is None else np.array(user, dtype=np.int64),
    )


def bundle(
    labels: Sequence[int],
    keep: Sequence[float],
    classes: Sequence[str] | None = None,
    test: Sequence[int] = (0,),
) -> Bundle:
    return of_splits(
        split(labels), split((), "validation"), split(test, "test"), keep=keep, classes=classes
    )


def with_columns(
    train: Mapping[str, np.ndarray],
    validation: Mapping[str, np.ndarray] | None = None,
    test: Mapping[str, np.ndarray] | None = None,
) -> Bundle:
    """Return a bundle of one class; splits that are not given have the same columns, empty."""
    given = {"train": train, "validation": validation, "test": test}
    none = {name: values[:0] for name, values in train.items()}
    columns = {name: none if it is None else it for name, it in given.items()}
    lengths = {name: len(next(iter(it.values()), ())) for name, it in columns.items()}
    return of_splits(*(split([0] * lengths[name], name, columns[name]) for name in given))


def with_users(
    train: Sequence[int] | None,
    test: Sequence[int] | None,
    users: int,
    columns: Mapping[str, np.ndarray] | None = None,
) -> Bundle:
    """Return a bundle of one class; a split without users has two records."""
    return of_splits(
        split([0] * (2 if train is None else len(train)), "train", columns, train),
        split((), "validation", {name: it[:0] for name, it in (columns or {}).items()}),
        split([0] * (2 if test is None else len(test)), "test", user=test),
        users=tuple(f"user {i}" for i in range(users)),
    )


def of_splits(
    train: Split,
    validation: Split,
    test: Split,
    keep: Sequence[float] = (1.0,),
    classes: Sequence[str] | None = None,
    users: Sequence[str] = (),
) -> Bundle:
    return Bundle(
        name="planted",
        train=train,
        validation=validation,
        test=test,
        classes=tuple(classes or map(str, range(len(keep)))),
        keep=tuple(keep),
        holdout="public",
        fingerprint="0" * 64,
        notes=(),
        users=tuple(users),
    )
