"""What the cells of a column mean: text, number, date or a gap."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import (
    is_bool_dtype,
    is_datetime64_any_dtype,
    is_integer_dtype,
    is_numeric_dtype,
)

from dpsgd.data.frames import Frame
from dpsgd.errors import ConfigError

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "NaT"}
)
"""Texts that stand for a missing value, unless a setting names them as a value."""

_LISTS = (list, tuple, set, dict, np.ndarray)


@dataclass(frozen=True)
class Cells:
    """The columns of one file, or of two one after the other: ``n`` records in all.

    ``na_values`` are further texts that stand for a missing value. Every method raises ConfigError
    with its ``key``, the column and the row for a cell that it cannot read.
    """

    frames: tuple[Frame, ...]
    na_values: frozenset[str]

    def __len__(self) -> int:
        return sum(len(frame.table) for frame in self.frames)

    def where(self, position: int) -> str:
        """Return ``row 3 of file.csv``; rows count from 1, header aside."""
        for frame in self.frames:
            if position < len(frame.table):
                return f"row {position + 1} of {frame.source}"
            position -= len(frame.table)
        raise IndexError(position)

    def numeric(self, column: str) -> bool:
        """Return whether the files store numbers in this column: Parquet may, CSV never does."""
        stored = [frame.table[column].dtype for frame in self.frames]
        return all(is_numeric_dtype(dtype) and not is_bool_dtype(dtype) for dtype in stored)

    def whole(self, column: str) -> bool:
        """Return whether the files store whole numbers in this column."""
        return all(is_integer_dtype(frame.table[column].dtype) for frame in self.frames)

    def texts(self, column: str, key: str, values: Collection[str] = ()) -> np.ndarray:
        """Return ``[n]`` stripped texts (object), None where missing; whole floats as 1, not 1.0.

        ``values`` are texts that a setting names, and so never missing. A list is refused.
        """
        return self._words(self._raw(column), column, key, values)

    def numbers(self, column: str, key: str) -> np.ndarray:
        """Return ``[n]`` float64, NaN where missing. Anything but finite numbers is refused."""
        if all(is_numeric_dtype(frame.table[column].dtype) for frame in self.frames):
            values = np.concatenate([_floats(frame.table[column]) for frame in self.frames])
            bad = np.isinf(values)
        else:
            raw = self._raw(column)
            values = _floats(pd.to_numeric(pd.Series(raw, dtype=object), errors="coerce"))
            # Few cells hold no number: only these are looked at one by one.
            odd = np.flatnonzero(~np.isfinite(values))
            bad = np.zeros(len(values), dtype=bool)
            bad[odd] = ~pd.isna(self._words(raw[odd], column, key, ()))
        values[np.isin(values, [float(w) for w in self.na_values if _is_number(w)])] = np.nan
        self._refuse(
            bad, column, key, "a finite number", "data.na_values lists texts that mean a gap"
        )
        return values

    def dates(self, column: str, key: str, date_format: str | None) -> np.ndarray:
        """Return ``[n]`` datetime64[us], in UTC where the cells have a zone.

        Texts are ISO 8601, or ``date_format`` (as in strptime). A missing date is NaT.
        """
        parts: list[np.ndarray] = []
        bad: list[np.ndarray] = []
        for frame in self.frames:
            stored: Any = frame.table[column]
            style = None
            if not is_datetime64_any_dtype(stored.dtype):
                stored = pd.Series(Cells((frame,), self.na_values).texts(column, key), dtype=object)
                style = date_format or "ISO8601"
            parsed = pd.to_datetime(stored, format=style, errors="coerce", utc=True)
            bad.append((parsed.isna() & ~stored.isna()).to_numpy())
            parts.append(parsed.dt.tz_localize(None).to_numpy().astype("datetime64[us]"))
        style = date_format or "ISO 8601, such as 2013-08-14 or 2013-08-14T06:03:42"
        hint = "data.time_format takes another format, as in strptime"
        self._refuse(np.concatenate(bad), column, key, f"a date ({style})", hint)
        return np.concatenate(parts)

    def _words(self, raw: np.ndarray, column: str, key: str, values: Collection[str]) -> np.ndarray:
        try:
            codes, found = pd.factorize(raw)
        except TypeError:
            # Lists cannot be hashed, which is how they show.
            codes, found = np.arange(len(raw)), raw
        gaps = (MISSING | self.na_values) - set(values)
        words: list[str | None] = []
        for value in found:
            if isinstance(value, _LISTS):
                cells = enumerate(self._raw(column))
                row = self.where(next(i for i, cell in cells if isinstance(cell, _LISTS)))
                why = f"{row} holds a list: [{', '.join(map(str, value))}]"
                raise ConfigError(key, column, why)
            word = _text(value)
            words.append(None if word in gaps else word)
        # The code of what pandas knows as missing is −1: the last.
        return np.array([*words, None], dtype=object)[codes]

    def _raw(self, column: str) -> np.ndarray:
        return np.concatenate([f.table[column].to_numpy(dtype=object) for f in self.frames])

    def _refuse(self, bad: np.ndarray, column: str, key: str, kind: str, hint: str) -> None:
        if bad.any():
            row = int(bad.argmax())
            why = f"{self.where(row)} has {self._raw(column)[row]!r}, which is not {kind}"
            raise ConfigError(key, column, why, hint)


def _floats(stored: Any) -> np.ndarray:
    return stored.astype("Float64").to_numpy(np.float64, na_value=np.nan)


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value).strip()


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
