"""Columns of text: which there are, what they say, and which values occur."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError, did_you_mean

MISSING = "missing"
"""The value of an entry that is None, NaN or blank."""

MOST_VALUES = 256
"""A column of names or free text would make a slice a record, and fill memory with them."""

_TEXT, _WHOLE = "UTOb", "iu"  # kinds of numpy dtype


def column_of(split: Split, name: str, key: str) -> np.ndarray:
    """Return a column of a split. Raises ConfigError(key) if there is none of this name."""
    if name not in split.columns:
        known = ", ".join(split.columns) or "none"
        raise ConfigError(
            key, name,
            f"no such column in {split.name}; there are {known}{did_you_mean(name, split.columns)}",
        )  # fmt: skip
    return split.columns[name]


def is_text(values: np.ndarray) -> bool:
    """Say whether a column holds text, yes and no included."""
    return values.dtype.kind in _TEXT


def text_columns(bundle: Bundle) -> tuple[str, ...]:
    """Return the names of all columns of text, in the order of the data."""
    return tuple(name for name, values in bundle.train.columns.items() if is_text(values))


def text_of(split: Split, name: str, key: str) -> np.ndarray:
    """Return a column as ``[n]`` words (dtype object), ``MISSING`` where there is none.

    Whole numbers are taken as words. Raises ConfigError(key) for other columns.
    """
    values = column_of(split, name, key)
    if not is_text(values) and values.dtype.kind not in _WHOLE:
        raise ConfigError(
            key, name, "must be a column of text or of whole numbers",
            "for numbers and dates declare edges: a kind dpsgd.slices.bins.Bins",
        )  # fmt: skip
    codes, found = pd.factorize(values)  # -1 where missing
    words = [str(value) if str(value).strip() else MISSING for value in found]
    return np.array([*words, MISSING], dtype=object)[codes]


def vocabulary(
    bundle: Bundle, words_of: Callable[[Split], np.ndarray], key: str, what: object
) -> tuple[str, ...]:
    """Return the words that occur in any split, sorted, ``MISSING`` last.

    Raises ConfigError(key, what) for more than ``MOST_VALUES``.
    """
    splits = (bundle.train, bundle.validation, bundle.test)
    found = {word for split in splits for word in pd.unique(words_of(split))}
    if len(found) > MOST_VALUES:
        raise ConfigError(
            key, what, f"has {len(found)} values; at most {MOST_VALUES} can be slices",
            "name the columns that are categories, or group the values in the data",
        )  # fmt: skip
    return tuple(sorted(found, key=lambda word: (word == MISSING, word)))


def one_hot(words: np.ndarray, vocabulary: tuple[str, ...]) -> np.ndarray:
    """Return boolean membership ``[n, k]`` of words in a vocabulary."""
    codes = pd.Index(vocabulary, dtype=object).get_indexer(pd.Index(words, dtype=object))
    return codes[:, None] == np.arange(len(vocabulary))
