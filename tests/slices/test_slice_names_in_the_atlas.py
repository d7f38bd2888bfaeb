"""The atlas knows slices by their names alone: what the kinds write, it takes apart again."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pandas as pd
import pytest
from planted_bundles import with_columns, with_users

from analysis.schema import SLICE_KINDS
from analysis.slices import slice_columns
from dpsgd.slices.bins import Bins
from dpsgd.slices.column import Column
from dpsgd.slices.ids import Ids
from dpsgd.slices.pair import Pair
from dpsgd.slices.user_size import UserSize

PEOPLE = with_columns(
    {
        "sex": np.array(["F", "M", ""]),
        "语言": np.array(["中文", "a=b", "x & y"]),
        "year": np.array(["10", "9", "9"]),
        "native-country": np.array(["a", "b", "b"]),
        "age": np.array([1.0, 2.0, 3.0]),
        "day": np.array(["2016-01-01"] * 3, dtype="datetime64[D]"),
    }
)


def _table(*places):
    rows = [
        {"slice_kind": kind, "slice": name, "metric": metric, "split": split, "n": n}
        for kind, name, n in places
        for metric, split in (("kept", "train"), ("recall", "test"))
    ]
    return pd.DataFrame(rows)


def _drawn(kind, data=PEOPLE):
    names, _ = kind.assign(data.train, data)
    columns = slice_columns(_table(*((kind.kind, name, 10) for name in names)))
    assert sorted(column.name for column in columns) == sorted(names)
    return [
        (heading, [column.short for column in run])
        for heading, run in groupby(columns, key=lambda column: column.heading)
    ]


def test_values_stand_below_their_column_and_numbers_in_their_order():
    assert _drawn(Column(("sex", "语言", "year"))) == [
        ("sex", ["F", "M", "missing"]),
        ("语言", ["a=b", "x & y", "中文"]),
        ("year", ["9", "10"]),
    ]


def test_pairs_stand_below_both_columns():
    assert _drawn(Pair((("sex", "year"), ("native-country", "year")))) == [
        ("sex × year", ["F & 10", "M & 9", "missing & 9"]),
        ("native-country × year", ["a & 10", "b & 9"]),
    ]


def test_a_pair_that_cannot_be_taken_apart_keeps_its_whole_name():
    assert dict(_drawn(Pair((("sex", "语言"),))))["pair of columns"] == [
        "sex=M & 语言=a=b",
        "sex=missing & 语言=x & y",
    ]


def test_bins_stand_below_their_column():
    assert _drawn(Bins("age", (-1.5, 45))) == [
        ("age", ["<-1.5", "-1.5 to <45", "≥45", "missing"]),
    ]
    assert _drawn(Bins("day", ("2016-01-01", "2016-07-01"))) == [
        ("day", ["<2016-01-01", "2016-01-01 to <2016-07-01", "≥2016-07-01", "missing"]),
    ]


def test_user_sizes_and_lists_say_what_they_count():
    data = with_users([0], [], users=1)
    assert _drawn(UserSize((1, 2, 5)), data) == [
        ("records of the user", ["<1", "1", "2–4", "≥5"]),
    ]
    assert _drawn(Ids({"hard": (100,)})) == [("list of examples", ["hard"])]


@pytest.mark.parametrize("kind", SLICE_KINDS)
def test_every_kind_is_drawn_whatever_the_name(kind):
    for name in ("", "=", " & ", "<", "≥", "a≤b", "users with  records", "$x$", "a=b & c"):
        (column,) = slice_columns(_table((kind, name, 3)))
        assert (column.kind, column.name) == (kind, name)
        assert column.heading + column.short or name in ("", "=")


def test_only_bands_and_labels_have_a_tail():
    places = [(kind, f"{kind}{n}", n) for kind in SLICE_KINDS[1:] for n in (1, 100, 110)]
    found = slice_columns(_table(("all", "all", 633), *places))
    assert {column.name for column in found if column.tail} == {"label1", "rarity1"}
    assert [column.kind for column in found][:7] == ["all", *["rarity"] * 3, *["label"] * 3]
