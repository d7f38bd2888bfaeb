"""From columns to model inputs: scaled numbers and one-hot words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpsgd.data.cells import Cells
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class Encoded:
    """Columns of inputs, ``values`` ``[n, k]`` float32, that one column of the data became.

    ``missing`` and ``unseen`` are boolean ``[n]``: which records had no value, and which had a
    value outside the vocabulary.
    """

    column: str
    values: np.ndarray
    missing: np.ndarray
    unseen: np.ndarray


@dataclass(frozen=True)
class Scaling:
    """Constants of one numeric column; ``mean`` and ``std`` are of log(1+x) where ``log``."""

    mean: float
    std: float


def scaled(
    cells: Cells, column: str, constants: Scaling | None, log: bool, clip: float | None,
    training: np.ndarray,
) -> Encoded:  # fmt: skip
    """Return (x − mean)/std, cut to ±``clip``, and an indicator of missing values: ``[n, 2]``.

    A missing value is the mean, 0. Without ``constants`` mean and standard deviation are those of
    the rows ``training`` that have a value. Raises ConfigError for a negative x where ``log``.
    """
    values = cells.numbers(column, "data.numeric")
    missing = np.isnan(values)
    if log:
        if (values < 0).any():
            row = int((values < 0).argmax())
            why = f"log(1+x) needs x of 0 or more; {cells.where(row)} has {values[row]:g}"
            raise ConfigError("data.log", column, why)
        values = np.log1p(values)
    constants = constants or _measured(values[training])
    inputs = np.where(missing, 0.0, (values - constants.mean) / constants.std)
    if clip is not None:
        inputs = np.clip(inputs, -clip, clip)
    stacked = np.stack([inputs, missing], axis=1).astype(np.float32)
    return Encoded(column, stacked, missing, np.zeros(len(values), dtype=bool))


def one_hot(
    cells: Cells, column: str, vocabulary: tuple[str, ...] | None, training: np.ndarray
) -> Encoded:
    """Return an input for each word, for a missing value and for any other: ``[n, words + 2]``.

    Without ``vocabulary`` the words are those of the rows ``training``, sorted.
    """
    words = cells.texts(column, "data.categorical", vocabulary or ())
    codes, found = pd.factorize(words)
    missing = codes == -1
    if vocabulary is None:
        vocabulary = tuple(sorted(set(words[training]) - {None}))
    gap, unseen = len(vocabulary), len(vocabulary) + 1
    places = {word: i for i, word in enumerate(vocabulary)}
    # The code of a missing value is −1: the last.
    columns = np.array([*(places.get(word, unseen) for word in found), gap])[codes]
    values = np.zeros((len(words), gap + 2), dtype=np.float32)
    values[np.arange(len(words)), columns] = 1
    return Encoded(column, values, missing, columns == unseen)


def _measured(values: np.ndarray) -> Scaling:
    known = values[~np.isnan(values)]
    if not len(known):
        return Scaling(0.0, 1.0)
    std = float(known.std())
    # A constant column carries nothing; it must not become NaN.
    return Scaling(float(known.mean()), std if std > 0 else 1.0)
