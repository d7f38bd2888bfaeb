"""The columns of a figure: which slices there are, how large, and which of them are the tail."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

_COLUMN_KINDS = ("all", "rarity", "label")


@dataclass(frozen=True)
class SliceColumn:
    """A slice, its smallest and largest n in the test split (0 where absent), tail or not."""

    kind: str
    name: str
    n_low: int
    n_high: int
    tail: bool


def slice_columns(table: pd.DataFrame) -> list[SliceColumn]:
    """Return all slices: ``all``, then rarity bands, then labels; whole numbers in their order.

    The tail is the band named so, or else the one with the fewest training examples, and every
    label with at most half of the training examples of the median label. Training examples are
    the draws that ``kept`` counted; without them, the test examples.
    """
    drawn = _counts(table, "kept", "train")
    tested = _counts(table, "recall", "test")
    weight = drawn if drawn is not None and max(drawn["max"]) > 0 else tested
    found = table[["slice_kind", "slice"]].drop_duplicates()
    columns: list[SliceColumn] = []
    for kind in _COLUMN_KINDS:
        names = _in_order(list(found.loc[found["slice_kind"] == kind, "slice"]))
        tail = _tail(kind, names, weight)
        for name in names:
            low, high = _n(tested, kind, name)
            columns.append(SliceColumn(kind, name, low, high, name in tail))
    return columns


def _counts(table: pd.DataFrame, metric: str, split: str) -> pd.DataFrame | None:
    rows = table.loc[(table["metric"] == metric) & (table["split"] == split), :]
    if rows.empty:
        return None
    return rows.groupby(["slice_kind", "slice"], sort=False).agg(min=("n", "min"), max=("n", "max"))


def _n(counts: pd.DataFrame | None, kind: str, name: str) -> tuple[int, int]:
    if counts is None or (kind, name) not in counts.index:
        return 0, 0
    row = counts.loc[(kind, name)]
    return int(row["min"]), int(row["max"])


def _in_order(names: list[str]) -> list[str]:
    if all(name.isascii() and name.isdigit() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return names


def _tail(kind: str, names: list[str], counts: pd.DataFrame | None) -> set[str]:
    if kind == "rarity":
        called = {name for name in names if name.lower() in ("tail", "rare", "rarest")}
        if called:
            return called
    sizes = {name: _n(counts, kind, name)[1] for name in names}
    if kind == "all" or len(set(sizes.values())) < 2:
        return set()
    if kind == "rarity":
        return {min(sizes, key=sizes.__getitem__)}
    half = pd.Series(sizes).median() / 2
    return {name for name, size in sizes.items() if size <= half}
