"""One slice a value of a column of text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError
from dpsgd.slices.text import one_hot, text_columns, text_of, vocabulary


@dataclass(frozen=True)
class Column:
    """Slices ``sex=Female``, ``sex=Male``, ...: every value that a column has in any split.

    ``columns`` null takes every column of text that the data have, which may be none. A missing or
    blank entry is the value ``missing``. The names come from the data, so that who sees them learns
    which values occur; ``Bundle.notes`` must say so, or that the values are public.
    """

    columns: tuple[str, ...] | None
    kind: ClassVar[str] = "column"

    def __post_init__(self) -> None:
        if self.columns is not None and not self.columns:
            raise ConfigError("columns", "[]", "needs a column, or null for every column of text")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise ConfigError("columns", list(self.columns), "names a column twice")

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return ``column=value`` for every value, and one-hot membership column by column."""
        values = self._values(bundle)
        names = tuple(f"{column}={word}" for column, words in values.items() for word in words)
        parts = [
            one_hot(text_of(split, column, "columns"), words) for column, words in values.items()
        ]
        return names, np.concatenate([np.zeros((len(split), 0), dtype=bool), *parts], axis=1)

    def headings(self, bundle: Bundle) -> tuple[str, ...]:
        """Return the column of every slice."""
        return tuple(column for column, words in self._values(bundle).items() for _ in words)

    def _values(self, bundle: Bundle) -> dict[str, tuple[str, ...]]:
        columns = text_columns(bundle) if self.columns is None else self.columns
        return {
            name: vocabulary(bundle, partial(text_of, name=name, key="columns"), "columns", name)
            for name in columns
        }
