"""Texts in a table: next tokens to predict, or one label a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from dpsgd.data.bundle import IGNORED, Bundle, Split
from dpsgd.data.cells import Cells
from dpsgd.data.columns import LabelMap, read_label_map, texts
from dpsgd.data.columns import Text as Word
from dpsgd.data.deal import deal
from dpsgd.data.frames import read_frame
from dpsgd.data.kept import slice_columns
from dpsgd.data.labels import read_classes, read_users
from dpsgd.data.notes import COMPUTED, COUNTED, OVERLAPPING
from dpsgd.data.source import Parts, TailedSource
from dpsgd.data.tokens import NOTHING, Alphabet, Level, beginnings, codes_of, windows
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class Text(TailedSource):
    """A column ``text`` of a CSV (also ``.gz``) or Parquet file.

    Task ``tokens``: every text is cut into windows of ``context`` tokens that begin ``stride``
    apart (null: ``context``, without overlap), and a window is a record. The windows of each user
    (all of them, without users) are dealt to the splits by share at random, so that a user can be
    in every split. Task ``classes``: a text's first ``context`` tokens are a record, its label is
    in the column ``label``, and each class is split by share.

    Tokens are UTF-8 bytes, or characters: those of ``vocabulary``, or, null, of the training texts;
    others are read as one token ``unknown``. A record has its row's user, slice columns and time.
    """

    path: str
    test_path: str | None
    names: tuple[Word, ...] | None
    separator: str
    text: str
    label: str | None
    label_map: LabelMap
    task: Literal["tokens", "classes"]
    level: Level
    vocabulary: str | None
    context: int
    stride: int | None
    user: str | None
    slices: tuple[Word, ...]
    time: str | None
    time_format: str | None
    na_values: tuple[Word, ...]
    train: float
    validation: float

    def __post_init__(self) -> None:
        super().__post_init__()
        Parts(self.train, self.validation, self.test_path is not None)
        if self.context < 1:
            raise ConfigError("context", self.context, "must be at least 1 token")
        if self.stride is not None and not 1 <= self.stride <= self.context:
            why = f"must be from 1 to context={self.context}, or tokens would be left out"
            raise ConfigError("stride", self.stride, why)
        if self.vocabulary is not None and (self.level == "bytes" or not self.vocabulary):
            why = "needs a character, and level=characters; bytes have 256 ids"
            raise ConfigError("vocabulary", repr(self.vocabulary), why)
        for key in ("label", "label_map", "class_") if self.task == "tokens" else ("stride",):
            if getattr(self, key) is not None:
                why = f"must be null: task={self.task} has none"
                raise ConfigError(key.rstrip("_"), getattr(self, key), why)
        if self.task == "tokens" and self.keep != 1:
            raise ConfigError("keep", self.keep, "must be 1: task=tokens has no classes to thin")
        if self.task == "classes" and self.label is None:
            raise ConfigError("label", None, "is required: the column that task=classes predicts")

    def load(self, cache: Path) -> Bundle:
        """Read, cut and split. Example ids are row positions, of task ``tokens`` those of windows.

        Raises ConfigError for a file or a cell that cannot be used, with its row.
        """
        del cache
        cells, notes = self._read()
        user, users = (None, ()) if self.user is None else read_users(cells, self.user)
        cut = self._windows(cells, user) if self.task == "tokens" else self._whole(cells)
        alphabet = self._alphabet(cut.codes[cut.rows["train"]])
        ids = alphabet.ids(cut.codes)
        kept = slice_columns(cells, texts("slices", self.slices), {}, self.time, self.time_format)
        columns = {name: values[cut.row] for name, values in kept.items()}
        notes = (*notes, *self._notes(), *_unknown(ids, alphabet, cut.rows))
        labels, classes = cut.labels, cut.classes
        if labels is None:
            labels = np.where(cut.codes[:, 1:] == NOTHING, IGNORED, ids[:, 1:])
            ids, classes = ids[:, :-1], alphabet.names
        splits = [
            Split(
                name, torch.from_numpy(ids[own]), torch.from_numpy(labels[own]), own,
                {column: values[own] for column, values in columns.items()},
                None if user is None else user[cut.row[own]],
            )
            for name, own in cut.rows.items()
        ]  # fmt: skip
        return Bundle(
            name=self.name, train=splits[0], validation=splits[1], test=splits[2],
            classes=classes, keep=cut.keep, holdout=self.holdout, notes=notes, task=self.task,
            users=users, vocabulary=len(alphabet.names),
        )  # fmt: skip

    def _read(self) -> tuple[Cells, tuple[str, ...]]:
        names = None if self.names is None else texts("names", self.names)
        frame, notes = read_frame(self.path, "data.path", names, self.separator)
        frames = [frame]
        if self.test_path is not None:
            other, more = read_frame(self.test_path, "data.test_path", names, self.separator)
            frames, notes = [frame, other], (*notes, *more)
        wanted = {"text": self.text, "label": self.label, "user": self.user, "time": self.time}
        for each in frames:
            for key, column in (*wanted.items(), *(("slices", str(s)) for s in self.slices)):
                if column is not None:
                    each.require(f"data.{key}", column)
        return Cells(tuple(frames), frozenset(texts("na_values", self.na_values))), notes

    def _n_test(self, cells: Cells) -> int | None:
        return None if self.test_path is None else len(cells.frames[1].table)

    def _windows(self, cells: Cells, user: np.ndarray | None) -> _Cut:
        """Cut task ``tokens``. Raises ConfigError for a split without a window."""
        tokens = [codes_of(text, self.level) for text in _texts(cells, self.text)]
        codes, row = windows(tokens, self.context, self.stride or self.context)
        groups = np.zeros(len(row), dtype=np.int64) if user is None else user[row]
        n_test = self._n_test(cells)
        whole = 1.0 if n_test is None else self.train + self.validation
        part = deal(groups, (self.train / whole, self.validation / whole), self.seed)
        if n_test is not None:
            # Rounding may leave a window over.
            part = np.where(row >= len(cells) - n_test, 2, np.minimum(part, 1))
        names = ("train", "validation", "test")
        rows = {name: np.flatnonzero(part == i) for i, name in enumerate(names)}
        for name, own in rows.items():
            if not len(own):
                why = f"no window is left for {name} ({len(row)} windows in all)"
                raise ConfigError("data.validation", self.validation, why)
        return _Cut(codes, row, rows, None, (), ())

    def _whole(self, cells: Cells) -> _Cut:
        """Cut task ``classes``: one record a text."""
        tokens = [codes_of(text, self.level) for text in _texts(cells, self.text)]
        label_map = read_label_map(self.label_map)
        labels, classes = read_classes(cells, str(self.label), label_map, None)
        try:
            keep = self.shares(classes)
        except ConfigError as error:
            raise error.under("data") from None
        parts = Parts(self.train, self.validation, self.test_path is not None)
        rows = self.rows(labels, keep, parts, self._n_test(cells))
        codes = beginnings(tokens, self.context)
        return _Cut(codes, np.arange(len(tokens)), rows, labels, classes, keep)

    def _alphabet(self, training: np.ndarray) -> Alphabet:
        if self.level == "bytes":
            return Alphabet.of_bytes()
        if self.vocabulary is not None:
            training = codes_of(self.vocabulary, self.level)
        return Alphabet.of_characters(training)

    def _notes(self) -> tuple[str, ...]:
        notes: list[str] = []
        if self.task == "tokens":
            notes.append(
                f"a record is a window of {self.context} tokens: with records as units, ε is that "
                "of a window, and a text may be several; the token after a window begins the next"
            )
        if self.level == "characters":
            computed = self.vocabulary is None
            notes.append(f"vocabulary {COMPUTED}" if computed else "the vocabulary is declared")
        if self.task == "classes" and self.label_map is None:
            notes.append(f"names of the classes {COMPUTED}")
        if self.slices:
            names = ", ".join(texts("slices", self.slices))
            notes.append(f"values of {names} that name slices {COMPUTED}")
        if self.stride is not None and self.stride < self.context:
            notes.append(OVERLAPPING)
        return tuple(notes)


@dataclass(frozen=True)
class _Cut:
    """Records: ``codes`` ``[m, L]``, the table ``row`` of each, and which each split has."""

    codes: np.ndarray
    row: np.ndarray
    rows: dict[str, np.ndarray]
    labels: np.ndarray | None
    classes: tuple[str, ...]
    keep: tuple[float, ...]


def _texts(cells: Cells, column: str) -> list[str]:
    """Return each row's text as it stands. Raises ConfigError for a cell that is none."""
    values = [v for frame in cells.frames for v in frame.table[column].to_numpy(dtype=object)]
    for i, value in enumerate(values):
        if not isinstance(value, str):
            why = f"{cells.where(i)} holds {value!r} where a text is needed"
            raise ConfigError("data.text", column, why)
    return values


def _unknown(ids: np.ndarray, alphabet: Alphabet, rows: dict[str, np.ndarray]) -> tuple[str, ...]:
    counts = [int((ids[own] == alphabet.unknown).sum()) for own in rows.values()]
    if alphabet.unknown is None or not any(counts):
        return ()
    numbers = "/".join(map(str, counts))
    return (f"unknown characters in train/validation/test: {numbers}; {COUNTED}",)
