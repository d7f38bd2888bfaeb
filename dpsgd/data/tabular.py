"""Settings of data in named columns, and the way from columns to a bundle."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from dpsgd.data.bundle import Bundle, Split
from dpsgd.data.cells import Cells
from dpsgd.data.columns import (
    Categorical,
    Columns,
    LabelMap,
    Numeric,
    Text,
    read_categorical,
    read_label_map,
    read_numeric,
    texts,
)
from dpsgd.data.encoding import Encoded, one_hot, scaled
from dpsgd.data.frames import Frame
from dpsgd.data.kept import slice_columns
from dpsgd.data.labels import read_classes, read_users
from dpsgd.data.notes import COMPUTED, COUNTED
from dpsgd.data.source import Parts, TailedSource
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class TabularSource(TailedSource):
    """What the columns mean: label, features, slices, owner and time.

    ``numeric`` columns are scaled, ``categorical`` ones one-hot; see :mod:`dpsgd.data.encoding`.
    ``slices`` and ``time`` are kept as they are, beside the inputs.

    Splits are by record within each class, and so within users: one user's records may be in every
    split. ε of users covers their training records; accuracy is then that on users who trained too.
    """

    label: Text
    numeric: Numeric
    categorical: Categorical
    log: tuple[Text, ...]
    clip: float | None
    slices: tuple[Text, ...]
    user: Text | None
    time: Text | None
    time_format: str | None
    na_values: tuple[Text, ...]
    label_map: LabelMap
    train: float
    validation: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.columns
        classes = read_label_map(self.label_map)
        if classes is not None:
            self.shares(tuple(dict.fromkeys(classes.values())))
        if self.clip is not None and not (math.isfinite(self.clip) and self.clip > 0):
            raise ConfigError("clip", self.clip, "must be a finite number above 0, or null")

    @property
    def columns(self) -> Columns:
        """The columns by part. Raises ConfigError if two parts contradict each other."""
        return Columns(
            str(self.label), read_numeric(self.numeric), read_categorical(self.categorical),
            texts("log", self.log), texts("slices", self.slices),
            None if self.user is None else str(self.user),
            None if self.time is None else str(self.time),
        )  # fmt: skip

    def bundle(
        self, frames: tuple[Frame, ...], notes: tuple[str, ...],
        declared: tuple[str, ...] | None = None, inputs: np.ndarray | None = None,
    ) -> Bundle:  # fmt: skip
        """Return the bundle of one file, which is split, or of a training and a test file.

        ``declared``: names of the classes where the source states them. ``inputs`` ``[n, ...]``
        float32 stand in for encoded columns. Example ids are rows of the first file, then of the
        second. Raises ConfigError.
        """
        columns = self.columns
        columns.check(frames)
        cells = Cells(frames, frozenset(texts("na_values", self.na_values)))
        label_map = read_label_map(self.label_map)
        labels, classes = read_classes(cells, columns.label, label_map, declared)
        try:
            shares = self.shares(classes)
        except ConfigError as error:
            raise error.under("data") from None
        n_test = len(frames[1].table) if len(frames) > 1 else None
        parts = Parts(self.train, self.validation, test_given=n_test is not None)
        rows = self.rows(labels, shares, parts, n_test)
        if label_map is None and declared is None:
            notes = (*notes, f"names of the classes {COMPUTED}")
        if inputs is None:
            encoded = self._encoded(cells, columns, rows["train"])
            inputs = np.concatenate([part.values for part in encoded], axis=1)
            notes += (*_computed(columns), *_counted(encoded, rows))
        words = {c: v or () for c, v in columns.categorical.items()}
        kept = slice_columns(
            cells, columns.slices, words, columns.time, self.time_format, numeric=columns.numeric
        )
        if columns.slices:
            notes = (*notes, f"values of {', '.join(columns.slices)} that name slices {COMPUTED}")
        owners, users = (None, ()) if columns.user is None else read_users(cells, columns.user)
        splits = [
            Split(
                name, torch.from_numpy(inputs[members]), torch.from_numpy(labels[members]),
                members, {column: values[members] for column, values in kept.items()},
                None if owners is None else owners[members],
            )
            for name, members in rows.items()
        ]  # fmt: skip
        return Bundle(
            name=self.name, train=splits[0], validation=splits[1], test=splits[2],
            classes=classes, keep=shares, holdout=self.holdout, notes=notes, users=users,
        )  # fmt: skip

    def _encoded(self, cells: Cells, columns: Columns, training: np.ndarray) -> list[Encoded]:
        if not columns.numeric and not columns.categorical:
            allowed = f"no column is a feature; {cells.frames[0].source} has "
            raise ConfigError("data.numeric", None, allowed + ", ".join(cells.frames[0].table))
        numbers = [
            scaled(cells, column, constants, column in columns.log, self.clip, training)
            for column, constants in columns.numeric.items()
        ]
        words = [
            one_hot(cells, column, vocabulary, training)
            for column, vocabulary in columns.categorical.items()
        ]
        return numbers + words


def _computed(columns: Columns) -> list[str]:
    scales = [column for column, constants in columns.numeric.items() if constants is None]
    vocabularies = [column for column, words in columns.categorical.items() if words is None]
    notes = [f"mean and std of {', '.join(scales)} {COMPUTED}"] if scales else []
    notes += [f"vocabulary of {', '.join(vocabularies)} {COMPUTED}"] if vocabularies else []
    return notes


def _counted(encoded: list[Encoded], rows: dict[str, np.ndarray]) -> list[str]:
    notes: list[str] = []
    for what in ("missing", "unseen"):
        found = [
            f"{part.column} {'/'.join(str(int(flags[r].sum())) for r in rows.values())}"
            for part in encoded
            for flags in [getattr(part, what)]
            if flags.any()
        ]
        if found:
            notes.append(f"{what} in train/validation/test: {', '.join(found)}; {COUNTED}")
    return notes
