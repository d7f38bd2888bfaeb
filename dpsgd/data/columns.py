"""Which column plays which part: the settings, checked against the columns there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpsgd.data.encoding import Scaling
from dpsgd.data.frames import Frame
from dpsgd.errors import ConfigError, did_you_mean

Text = str | int | float | bool
"""A text as yaml may read it: ``1`` is a number there, ``true`` a truth."""

Numeric = tuple[Text, ...] | Mapping[Text, Mapping[str, float] | None] | None
"""Columns to scale, with declared constants or, if just listed, with computed ones."""

Categorical = tuple[Text, ...] | Mapping[Text, tuple[Text, ...] | None] | None
"""Columns of words, with a declared vocabulary or, if just listed, with that of the data."""

LabelMap = Mapping[Text, Text] | tuple[tuple[Text, Text], ...] | None
"""From texts to classes; pairs where the command line cannot hold a text as a key."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table by part, as texts."""

    label: str
    numeric: dict[str, Scaling | None]
    categorical: dict[str, tuple[str, ...] | None]
    log: tuple[str, ...]
    slices: tuple[str, ...]
    user: str | None
    time: str | None

    def __post_init__(self) -> None:
        for column in (*self.numeric, *self.categorical):
            if column == self.label:
                key = "numeric" if column in self.numeric else "categorical"
                raise ConfigError(key, column, "is the label; a model must not see it")
            if column in self.numeric and column in self.categorical:
                raise ConfigError("categorical", column, "is in numeric already; choose one")
        for column in self.log:
            if column not in self.numeric:
                known = f"numeric has {', '.join(self.numeric) or 'none'}"
                hint = did_you_mean(column, self.numeric)
                raise ConfigError("log", column, f"is not a numeric column{hint}; {known}")

    def roles(self) -> list[tuple[str, str]]:
        """Return (key, column) of every column that is read."""
        pairs = [("label", self.label)]
        pairs += [("numeric", column) for column in self.numeric]
        pairs += [("categorical", column) for column in self.categorical]
        pairs += [("slices", column) for column in self.slices]
        pairs += [("user", self.user)] if self.user is not None else []
        pairs += [("time", self.time)] if self.time is not None else []
        return pairs

    def check(self, frames: Sequence[Frame]) -> None:
        """Raise ConfigError for a column that a file does not have."""
        for frame in frames:
            for key, column in self.roles():
                frame.require(f"data.{key}", column)


def read_numeric(value: Numeric) -> dict[str, Scaling | None]:
    """Return the constants of each numeric column. Raises ConfigError."""
    listed = texts("numeric", tuple(value or ()))
    if not isinstance(value, Mapping):
        return dict.fromkeys(listed)
    return {
        str(column): None if constants is None else _scaling(f"numeric.{column}", constants)
        for column, constants in value.items()
    }


def read_categorical(value: Categorical) -> dict[str, tuple[str, ...] | None]:
    """Return the vocabulary of each column of words. Raises ConfigError."""
    listed = texts("categorical", tuple(value or ()))
    if not isinstance(value, Mapping):
        return dict.fromkeys(listed)
    return {
        str(column): None if words is None else texts(f"categorical.{column}", words)
        for column, words in value.items()
    }


def read_label_map(value: LabelMap) -> dict[str, str] | None:
    """Return the class of each text. Raises ConfigError for a text with two classes."""
    if value is None:
        return None
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    texts("label_map", [raw for raw, _ in pairs])
    found = {str(raw): str(name) for raw, name in pairs}
    if len(set(found.values())) < 2:
        raise ConfigError("label_map", found, "needs two classes or more")
    return found


def texts(key: str, values: Sequence[Text]) -> tuple[str, ...]:
    """Return the values as texts. Raises ConfigError for one that is there twice."""
    words = tuple(map(str, values))
    twice = [word for word in words if words.count(word) > 1]
    if twice:
        raise ConfigError(key, twice[0], "is there twice")
    return words


def _scaling(key: str, constants: Mapping[str, float]) -> Scaling:
    for name in constants:
        if name not in ("mean", "std"):
            allowed = f"no such key; allowed are mean, std{did_you_mean(name, ('mean', 'std'))}"
            raise ConfigError(f"{key}.{name}", constants[name], allowed)
    for name in ("mean", "std"):
        if name not in constants:
            raise ConfigError(f"{key}.{name}", None, "this key is required; or null for both")
        if not math.isfinite(constants[name]):
            raise ConfigError(f"{key}.{name}", constants[name], "must be a finite number")
    if constants["std"] <= 0:
        raise ConfigError(f"{key}.std", constants["std"], "must be above 0")
    return Scaling(constants["mean"], constants["std"])
