"""Columns that are kept beside the inputs, for slices."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from dpsgd.data.cells import Cells


def slice_columns(
    cells: Cells, slices: Collection[str], words: Mapping[str, tuple[str, ...]], time: str | None,
    time_format: str | None, *, numeric: Collection[str] = (),
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the columns by name, ``[rows]``: numbers and dates for bands, anything else as text.

    ``numeric`` are read as numbers whatever they hold; ``words`` gives declared vocabularies, whose
    words are no missing values. Raises ConfigError for cells that cannot be read.
    """
    kept: dict[str, np.ndarray] = {}
    for column in slices:
        if column in numeric or cells.numeric(column):
            values = cells.numbers(column, "data.slices")
            whole = cells.whole(column) and not np.isnan(values).any()
            kept[column] = values.astype(np.int64) if whole else values
        else:
            found = cells.texts(column, "data.slices", words.get(column, ()))
            kept[column] = np.array(["missing" if word is None else word for word in found])
    if time is not None:
        kept[time] = cells.dates(time, "data.time", time_format)
    return kept
