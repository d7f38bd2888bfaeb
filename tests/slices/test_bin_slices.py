from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_bundles import with_columns

from dpsgd.errors import ConfigError
from dpsgd.slices.bins import Bins

AGE = Bins("age", (25.0, 45.0, 65.0))
PERIOD = Bins("day", ("2016-01-01", "2020-06-01T12:00"))


def _data(name, values):
    return with_columns({name: np.asarray(values)})


def _names(kind, data, split=None):
    names, membership = kind.assign(split or data.train, data)
    assert (membership.sum(1) == 1).all()
    return [names[i] for i in membership.argmax(1)]


def test_an_edge_belongs_to_the_bin_above_it():
    data = _data("age", [24.9, 25.0, 44.9, 45.0, 65.0, -np.inf, np.inf, np.nan])
    assert _names(AGE, data) == [
        *("age<25", "25≤age<45", "25≤age<45", "45≤age<65", "age≥65"),
        *("age<25", "age≥65", "age missing"),
    ]


@given(
    values=st.lists(st.floats(allow_nan=True), max_size=20),
    edges=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5, unique=True),
)
def test_bins_are_a_partition_that_says_where_a_value_is(values, edges):
    edges = tuple(sorted(edges))
    data = _data("c", np.array(values, dtype=np.float64))
    names, membership = Bins("c", edges).assign(data.train, data)
    assert len(set(names)) == len(names) == len(edges) + 2
    for value, row in zip(values, membership, strict=True):
        (found,) = np.flatnonzero(row)
        assert found == (len(edges) + 1 if np.isnan(value) else sum(e <= value for e in edges))


@pytest.mark.parametrize("unit", ["D", "h", "s", "us", "ns"])
def test_dates_of_any_unit_are_binned(unit):
    days = ["2015-12-31T23", "2016-01-01", "2020-06-01T11", "2020-06-01T12", "NaT"]
    data = _data("day", np.array(days, dtype="datetime64[h]").astype(f"datetime64[{unit}]"))
    rounded = "2016-01-01≤day<2020-06-01T12:00" if unit == "D" else "day≥2020-06-01T12:00"
    assert _names(PERIOD, data) == [
        *("day<2016-01-01", "2016-01-01≤day<2020-06-01T12:00", "2016-01-01≤day<2020-06-01T12:00"),
        *(rounded, "day missing"),
    ]


def test_names_do_not_depend_on_the_records():
    few = with_columns({"age": np.array([30.0])})
    many = with_columns({"age": np.array([1.0, 30.0, 99.0, np.nan])})
    assert AGE.assign(few.train, few)[0] == AGE.assign(many.train, many)[0]


def test_whole_numbers_cannot_be_missing():
    data = _data("age", [1, 70])
    assert AGE.assign(data.train, data)[0] == ("age<25", "25≤age<45", "45≤age<65", "age≥65")


def test_splits_of_other_dtypes_have_the_same_bins():
    data = with_columns({"age": np.array([1, 70])}, test={"age": np.array([np.nan])})
    assert AGE.assign(data.train, data)[0] == AGE.assign(data.test, data)[0]
    assert _names(AGE, data) == ["age<25", "age≥65"]
    assert _names(AGE, data, data.test) == ["age missing"]


@pytest.mark.parametrize(
    ("edge", "name"), [(25, "c<25"), (0.5, "c<0.5"), (-3.0, "c<-3"), (1e6, "c<1000000")]
)
def test_edges_are_written_as_people_do(edge, name):
    data = _data("c", [0.0])
    assert Bins("c", (edge,)).assign(data.train, data)[0][0] == name


@pytest.mark.parametrize(
    "edges",
    [
        (),
        (2.0, 1.0),
        (1.0, 1.0),
        (1.0, "2016-01-01"),
        (float("nan"),),
        (float("inf"),),
        ("2016-01-02", "2016-01-01"),
        ("2016-01-01", "2016-01-01T00:00"),
        ("yesterday",),
        ("NaT",),
        ("25",),
        ("2016-01-01T00:00+01:00",),
    ],
)
def test_edges_that_are_not_increasing_numbers_or_dates_are_refused(edges):
    with pytest.raises(ConfigError) as caught:
        Bins("c", edges)
    assert caught.value.key == "edges"


@pytest.mark.parametrize(
    ("kind", "values", "key", "words"),
    [
        (AGE, ["old", "young"], "column", "Column"),
        (AGE, [True, False], "column", "Column"),
        (AGE, [1j], "column", "numbers or dates"),
        (AGE, np.array(["2016-01-01"], dtype="datetime64[D]"), "edges", "ISO dates"),
        (Bins("age", ("2016-01-01",)), [1.0], "edges", "numbers"),
        (Bins("aeg", (1.0,)), [1.0], "column", "did you mean 'age'"),
    ],
)
def test_a_column_that_the_edges_do_not_fit_is_refused(kind, values, key, words):
    data = _data("age", values)
    with pytest.raises(ConfigError, match=words) as caught:
        kind.assign(data.train, data)
    assert caught.value.key == key
