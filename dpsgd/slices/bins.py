"""Bins of a number or a date, with declared edges."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError
from dpsgd.slices.text import column_of, is_text

_NUMBERS, _DATES, _MAY_MISS = "iuf", "M", "fM"  # kinds of numpy dtype


@dataclass(frozen=True)
class Bins:
    """Slices ``age<25``, ``25≤age<65``, ``age≥65``, and ``age missing`` for NaN and NaT.

    ``edges`` are numbers, or ISO dates for a column of dates; strictly increasing. Names follow
    from edges and dtype alone, so that they reveal nothing of the records: a bin may be empty, and
    whole numbers, which cannot be missing, have no bin for it.
    """

    column: str
    edges: tuple[float | str, ...]
    kind: ClassVar[str] = "bins"

    def __post_init__(self) -> None:
        edges = self._edges()
        if not all(low < high for low, high in pairwise(edges)):
            raise ConfigError("edges", list(self.edges), "must be strictly increasing")

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the bins in their order, missing last, and membership: each record is in one."""
        columns = [self._checked(part) for part in (bundle.train, bundle.validation, bundle.test)]
        values = self._checked(split)
        place = np.searchsorted(self._edges(), values, side="right")
        names = self._names()
        if any(column.dtype.kind in _MAY_MISS for column in columns):
            missing = np.isnat(values) if values.dtype.kind in _DATES else np.isnan(values)
            place = np.where(missing, len(names), place)
            names = (*names, f"{self.column} missing")
        return names, place[:, None] == np.arange(len(names))

    def _names(self) -> tuple[str, ...]:
        edges = [edge if isinstance(edge, str) else _number(edge) for edge in self.edges]
        middle = (f"{low}≤{self.column}<{high}" for low, high in pairwise(edges))
        return f"{self.column}<{edges[0]}", *middle, f"{self.column}≥{edges[-1]}"

    def _edges(self) -> np.ndarray:
        numbers = [edge for edge in self.edges if not isinstance(edge, str)]
        dates = [edge for edge in self.edges if isinstance(edge, str)]
        if not self.edges or (numbers and dates):
            raise ConfigError("edges", list(self.edges), "needs numbers, or else ISO dates")
        if dates:
            return np.array([_date(edge) for edge in dates], dtype="datetime64[us]")
        for edge in numbers:
            if not math.isfinite(edge):
                raise ConfigError("edges", edge, "must be finite; the outer bins are open")
        return np.array(numbers, dtype=np.float64)

    def _checked(self, split: Split) -> np.ndarray:
        values = column_of(split, self.column, "column")
        if is_text(values):
            raise ConfigError(
                "column", self.column, "must be a column of numbers or dates, and is text",
                "for text use a kind dpsgd.slices.column.Column",
            )  # fmt: skip
        if values.dtype.kind not in _NUMBERS + _DATES:
            raise ConfigError(
                "column", self.column, f"must be numbers or dates, not {values.dtype}"
            )
        if (values.dtype.kind in _DATES) != isinstance(self.edges[0], str):
            wanted = "ISO dates, such as '2016-01-01'" if values.dtype.kind in _DATES else "numbers"
            raise ConfigError("edges", list(self.edges), f"{self.column} needs {wanted}")
        return values


def _number(edge: float) -> str:
    return f"{edge:.0f}" if float(edge).is_integer() and abs(edge) < 1e15 else repr(float(edge))


def _date(edge: str) -> datetime.datetime:
    try:
        date = datetime.datetime.fromisoformat(edge)
    except ValueError:
        raise ConfigError("edges", edge, "must be a number or an ISO date (2016-01-01)") from None
    if date.tzinfo is not None:
        raise ConfigError("edges", edge, "must be a date without a time zone")
    return date
