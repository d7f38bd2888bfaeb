from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_bundles import with_columns

from dpsgd.errors import ConfigError
from dpsgd.slices import text
from dpsgd.slices.column import Column
from dpsgd.slices.pair import Pair

EVERY = Column(columns=None)
SEX = np.array(["Female", "Male", "Male"])
RACE = np.array(["Black", "White", "White"])

words = st.lists(st.sampled_from(["a", "b", "猫", "x=y", None, float("nan"), " "]), max_size=12)


def _column(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _found(kind, split, data):
    names, membership = kind.assign(split, data)
    assert membership.shape == (len(split), len(names))
    assert membership.dtype == bool
    return [{names[i] for i in np.flatnonzero(row)} for row in membership]


def test_a_record_is_in_the_slice_of_its_value_in_every_column():
    data = with_columns({"sex": SEX, "race": RACE})
    assert EVERY.assign(data.train, data)[0] == (
        "sex=Female",
        "sex=Male",
        "race=Black",
        "race=White",
    )
    assert _found(EVERY, data.train, data) == [
        {"sex=Female", "race=Black"},
        {"sex=Male", "race=White"},
        {"sex=Male", "race=White"},
    ]


@given(train=words, test=words)
def test_every_column_is_a_partition_with_the_same_names_in_every_split(train, test):
    data = with_columns({"c": _column(train)}, test={"c": _column(test)})
    assigned = [EVERY.assign(part, data) for part in (data.train, data.validation, data.test)]
    assert len({names for names, _ in assigned}) == 1
    assert all((membership.sum(1) == 1).all() for _, membership in assigned)
    # No slice that nobody is in: the names are those that occur.
    assert np.concatenate([membership for _, membership in assigned]).any(0).all()


def test_a_value_that_only_the_test_split_has_is_a_slice_of_training_too():
    data = with_columns({"sex": SEX}, test={"sex": np.array(["Other"])})
    names, membership = EVERY.assign(data.train, data)
    assert names == ("sex=Female", "sex=Male", "sex=Other")
    assert not membership[:, 2].any()


@pytest.mark.parametrize("nothing", [None, float("nan"), "", "  "])
def test_a_missing_value_is_called_missing_and_comes_last(nothing):
    data = with_columns({"c": _column(["z", nothing])})
    assert EVERY.assign(data.train, data)[0] == ("c=z", "c=missing")
    assert _found(EVERY, data.train, data) == [{"c=z"}, {"c=missing"}]


def test_null_takes_columns_of_text_only():
    data = with_columns(
        {
            "word": SEX,
            "yes": np.array([True, False, True]),
            "age": np.array([1.0, 2.0, 3.0]),
            "whole": np.array([1, 2, 3]),
            "day": np.array(["2016-01-01"] * 3, dtype="datetime64[D]"),
        }
    )
    assert set(EVERY.headings(data)) == {"word", "yes"}
    assert Column(("whole",)).assign(data.train, data)[0] == ("whole=1", "whole=2", "whole=3")
    for name in ("age", "day"):
        with pytest.raises(ConfigError, match="Bins"):
            Column((name,)).assign(data.train, data)


def test_data_without_text_have_no_slices_by_column():
    data = with_columns({"age": np.array([1.0, 2.0])})
    assert EVERY.assign(data.train, data)[0] == ()
    assert EVERY.assign(data.train, data)[1].shape == (2, 0)


@pytest.mark.parametrize(
    "kind", [Column(("sxe",)), Pair((("sex", "sxe"),))], ids=["column", "pair"]
)
def test_an_unknown_column_is_refused_with_those_there_are(kind):
    data = with_columns({"sex": SEX, "race": RACE})
    with pytest.raises(ConfigError, match=r"sex, race \(did you mean 'sex'\?\)"):
        kind.assign(data.train, data)


def test_a_column_of_names_is_refused():
    data = with_columns({"name": np.array([f"n{i}" for i in range(text.MOST_VALUES + 1)])})
    with pytest.raises(ConfigError, match="257 values"):
        EVERY.assign(data.train, data)


def test_only_pairs_that_occur_are_slices():
    data = with_columns(
        {"sex": SEX, "race": RACE}, test={"sex": SEX[:1], "race": np.array(["White"])}
    )
    kind = Pair((("sex", "race"),))
    assert kind.assign(data.train, data)[0] == (
        "sex=Female & race=Black",
        "sex=Female & race=White",
        "sex=Male & race=White",
    )
    assert _found(kind, data.train, data) == [
        {"sex=Female & race=Black"},
        {"sex=Male & race=White"},
        {"sex=Male & race=White"},
    ]


@given(first=words, second=words)
def test_a_pair_is_the_meeting_of_its_columns(first, second):
    n = min(len(first), len(second))
    data = with_columns({"a": _column(first[:n]), "b": _column(second[:n])})
    pairs = _found(Pair((("a", "b"),)), data.train, data)
    columns = _found(Column(("a", "b")), data.train, data)
    assert [{" & ".join(sorted(both))} for both in columns] == pairs


@pytest.mark.parametrize(
    ("build", "key"),
    [
        (lambda: Column(()), "columns"),
        (lambda: Column(("sex", "sex")), "columns"),
        (lambda: Pair(()), "pairs"),
        (lambda: Pair((("sex", "sex"),)), "pairs"),
        (lambda: Pair((("sex", "race"), ("sex",))), "pairs"),
        (lambda: Pair((("sex", "race", "age"),)), "pairs"),
        (lambda: Pair((("sex", "race"), ("race", "sex"))), "pairs"),
    ],
)
def test_settings_that_say_nothing_or_twice_are_refused(build, key):
    with pytest.raises(ConfigError) as caught:
        build()
    assert caught.value.key == key
