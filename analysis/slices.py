"""The columns of a figure: which slices there are, how large, and which of them are the tail."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

_HEADINGS = {
    "all": "",
    "rarity": "rarity",
    "label": "label",
    "column": "column",
    "pair": "pair of columns",
    "bins": "bins",
    "user_size": "records of the user",
    "ids": "list of examples",
    "canary": "canaries",
}
"""The kinds of slice in the order of a figure, and what stands above those of a kind."""

_BANDS = {"head", "middle", "tail"}
_UNDER = 0.5

_PAIR = re.compile(r"(?P<a>[^=&]+)=(?P<x>[^=&]*) & (?P<b>[^=&]+)=(?P<y>[^=&]*)", re.DOTALL)
_BETWEEN = re.compile(r"(?P<low>[^≤<]+)≤(?P<column>.+)<(?P<high>[^≤<]+)", re.DOTALL)
_USERS = re.compile(r"users with (?P<records>.+) records?")
_OUTER = re.compile(r"(?P<column>.+?)(?P<rest>[<≥][^<≥]+| missing)", re.DOTALL)


@dataclass(frozen=True)
class SliceColumn:
    """A slice, its smallest and largest n in the test split (0 where no run has it), tail or not.

    ``name`` is the whole name; ``short`` goes without what ``heading``, shared by neighbours, says.
    """

    kind: str
    name: str
    heading: str
    short: str
    n_low: int
    n_high: int
    tail: bool


def slice_columns(table: pd.DataFrame) -> list[SliceColumn]:
    """Return all slices: ``all``, rarity bands, labels, then the other kinds; slices of one column
    of the data beside each other, whole numbers in their order.

    ``table`` holds cells that agree in their data. The tail is the band named so, or else, of bands
    with names of their own, the one with the fewest training examples; and the ``declared_rare``
    labels, or else every label with at most half of the training examples of the median label.
    Training examples are the draws that ``kept`` counted; without them, the test examples.
    """
    drawn = _counts(table, "kept", "train")
    tested = _counts(table, "recall", "test")
    weight = drawn if drawn is not None and max(drawn["max"]) > 0 else tested
    found = table[["slice_kind", "slice"]].drop_duplicates()
    columns: list[SliceColumn] = []
    for kind in _HEADINGS:
        names = list(found.loc[found["slice_kind"] == kind, "slice"])
        rare = declared_rare(table) if kind == "label" else frozenset()
        tail = set(rare) or _tail(kind, names, weight)
        for name, heading, short in _in_order(kind, names):
            low, high = _n(tested, kind, name)
            columns.append(SliceColumn(kind, name, heading, short, low, high, name in tail))
    return columns


def declared_rare(table: pd.DataFrame) -> frozenset[str]:
    """Return the labels of which the configuration keeps less for training than ``rare_below``.

    By ``data.class``, ``data.keep`` and ``data.profile``, so that no count is needed: with
    ``one_class`` that class keeps ``keep``; with ``exponential`` class k of K keeps
    ``keep``^(k/(K−1)). None where the cells declare nothing, or not the same.
    """
    share, below = _only(table, "config.data.keep"), rare_below(table)
    if not isinstance(share, int | float) or not 0 < share < 1:
        return frozenset()
    labels = list(table.loc[table["slice_kind"] == "label", "slice"].unique())
    if _only(table, "config.data.profile") == "exponential":
        last = max(len(labels) - 1, 1)
        return frozenset(name for k, name in enumerate(labels) if share ** (k / last) < below)
    thinned = str(_only(table, "config.data.class"))
    return frozenset({thinned} & set(labels)) if share < below else frozenset()


def rare_below(table: pd.DataFrame) -> float:
    """Return the share of a class below which it is rare: that of the bands, or else a half."""
    stated = _only(table, "config.slices.kinds.rarity.tail_below")
    return float(stated) if isinstance(stated, int | float) else _UNDER


def _only(table: pd.DataFrame, name: str) -> object:
    if name not in table:
        return None
    column = table[name]
    if isinstance(column.dtype, pd.CategoricalDtype):  # codes: no need to look at every value
        found = [column.cat.categories[code] for code in np.unique(column.cat.codes) if code >= 0]
    else:
        found = list(column.dropna().unique())
    return found[0] if len(found) == 1 else None


def _counts(table: pd.DataFrame, metric: str, split: str) -> pd.DataFrame | None:
    rows = table.loc[(table["metric"] == metric) & (table["split"] == split), :]
    if rows.empty:
        return None
    known = rows.loc[rows["n"] > 0, :]  # one run without values says nothing of the slice
    absent = rows.loc[~rows["slice"].isin(list(known["slice"].unique())), :]
    rows = pd.concat([known, absent]) if len(known) < len(rows) else rows
    return rows.groupby(["slice_kind", "slice"], sort=False).agg(min=("n", "min"), max=("n", "max"))


def _n(counts: pd.DataFrame | None, kind: str, name: str) -> tuple[int, int]:
    if counts is None or (kind, name) not in counts.index:
        return 0, 0
    row = counts.loc[(kind, name)]
    return int(row["min"]), int(row["max"])


def _in_order(kind: str, names: list[str]) -> list[tuple[str, str, str]]:
    """Return (name, heading, short name), heading by heading in the order of their first slice."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for name in names:
        heading, short = _told(kind, name)
        groups.setdefault(heading, []).append((name, heading, short))
    for group in groups.values():
        if all(short.isascii() and short.isdigit() for _, _, short in group):
            group.sort(key=lambda entry: (int(entry[2]), entry[2]))
    return [entry for group in groups.values() for entry in group]


def _told(kind: str, name: str) -> tuple[str, str]:
    """Return what stands above a slice with others of its column, and what is left of its name."""
    if kind == "column" and "=" in name:
        column, _, value = name.partition("=")
        return column, value
    if kind == "pair" and (pair := _PAIR.fullmatch(name)):
        return f"{pair['a']} × {pair['b']}", f"{pair['x']} & {pair['y']}"
    if kind == "bins" and (between := _BETWEEN.fullmatch(name)):
        return between["column"], f"{between['low']} to <{between['high']}"
    if kind == "bins" and (outer := _OUTER.fullmatch(name)):
        return outer["column"], outer["rest"].strip()
    if kind == "user_size" and (users := _USERS.fullmatch(name)):
        return _HEADINGS[kind], users["records"]
    return _HEADINGS[kind], name


def _tail(kind: str, names: list[str], counts: pd.DataFrame | None) -> set[str]:
    if kind == "rarity":
        called = {name for name in names if name.lower() in ("tail", "rare", "rarest")}
        if called or set(names) <= _BANDS:
            return called
    sizes = {name: _n(counts, kind, name)[1] for name in names}
    if kind not in ("rarity", "label") or len(set(sizes.values())) < 2:
        return set()
    if kind == "rarity":
        return {min(sizes, key=sizes.__getitem__)}
    half = pd.Series(sizes).median() / 2
    return {name for name, size in sizes.items() if size <= half}
