"""One slice a combination of values of two columns of text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError
from dpsgd.slices.text import one_hot, text_of, vocabulary


@dataclass(frozen=True)
class Pair:
    """Slices ``sex=Female & race=Black``, ...: the combinations that occur in any split.

    As with ``Column``, the names come from the data, and ``Bundle.notes`` must say so.
    """

    pairs: tuple[tuple[str, ...], ...]
    kind: ClassVar[str] = "pair"

    def __post_init__(self) -> None:
        if not self.pairs:
            raise ConfigError("pairs", "[]", "needs a pair of columns, such as [[sex, race]]")
        for pair in self.pairs:
            if len(pair) != 2 or len(set(pair)) != 2:
                raise ConfigError("pairs", list(pair), "a pair is two different columns")
        if len({frozenset(pair) for pair in self.pairs}) < len(self.pairs):
            raise ConfigError("pairs", [list(pair) for pair in self.pairs], "names a pair twice")

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return a name for every combination, and one-hot membership pair by pair."""
        values = self._values(bundle)
        names = tuple(name for found in values.values() for name in found)
        parts = [one_hot(_names(split, pair), found) for pair, found in values.items()]
        return names, np.concatenate(parts, axis=1)

    def headings(self, bundle: Bundle) -> tuple[str, ...]:
        """Return ``sex × race`` for every slice of that pair."""
        return tuple(
            f"{first} × {second}"
            for (first, second), found in self._values(bundle).items()
            for _ in found
        )

    def _values(self, bundle: Bundle) -> dict[tuple[str, ...], tuple[str, ...]]:
        return {
            pair: vocabulary(bundle, partial(_names, pair=pair), "pairs", list(pair))
            for pair in self.pairs
        }


def _names(split: Split, pair: tuple[str, ...]) -> np.ndarray:
    first, second = (text_of(split, name, "pairs") for name in pair)
    return f"{pair[0]}=" + first + f" & {pair[1]}=" + second
