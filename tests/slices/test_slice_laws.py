from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_bundles import bundle, split

from analysis.schema import SLICE_KINDS
from dpsgd.errors import ConfigError
from dpsgd.slices import SliceSet
from dpsgd.slices.label import Label
from dpsgd.slices.rarity import Rarity

BANDS = Rarity(tail_below=0.5, middle_below=0.95)
BOTH = SliceSet(name="both", kinds={"label": Label(), "rarity": BANDS}, most_memberships=2)

labels_and_keep = st.lists(st.floats(0.01, 1), min_size=1, max_size=8).flatmap(
    lambda keep: st.tuples(
        st.lists(st.integers(0, len(keep) - 1), max_size=30), st.just(tuple(keep))
    )
)


@pytest.mark.parametrize("kind", [Label(), BANDS], ids=["label", "rarity"])
@given(planted=labels_and_keep)
def test_a_partition_holds_every_row_exactly_once(kind, planted):
    labels, keep = planted
    data = bundle(labels, keep)
    names, membership = kind.assign(data.train, data)
    assert membership.dtype == bool
    assert membership.shape == (len(labels), len(names))
    assert (membership.sum(1) == 1).all()
    assert len(set(names)) == len(names)
    assert kind.kind in SLICE_KINDS


@given(planted=labels_and_keep)
def test_slices_of_a_split_do_not_depend_on_its_rows(planted):
    labels, keep = planted
    data = bundle(labels, keep)
    tables = [BOTH.table(part, data) for part in (data.train, data.validation, data.test)]
    assert len({table.keys for table in tables}) == 1
    assert tables[1].membership.shape == (0, len(tables[0].keys))


@given(planted=labels_and_keep)
def test_a_row_is_in_the_slice_of_its_own_label(planted):
    labels, keep = planted
    data = bundle(labels, keep)
    names, membership = Label().assign(data.train, data)
    assert names == data.classes
    assert [names[i] for i in membership.argmax(1)] == [data.classes[label] for label in labels]


def test_bands_go_by_the_declared_share_with_the_edge_above():
    keep = (1.0, 0.95, 0.94, 0.5, 0.49, 0.01)
    data = bundle(range(6), keep)
    names, membership = BANDS.assign(data.train, data)
    assert names == ("head", "middle", "tail")
    assert [names[i] for i in membership.argmax(1)] == ["head"] * 2 + ["middle"] * 2 + ["tail"] * 2
    assert BANDS.tail_classes(data) == (4, 5)


def test_bands_do_not_count_the_data():
    # Class 0 is declared whole and hardly there; class 1 is declared rare and everywhere.
    data = bundle([0] + [1] * 50, (1.0, 0.1))
    names, membership = BANDS.assign(data.train, data)
    assert names[membership[0].argmax()] == "head"
    assert {names[i] for i in membership[1:].argmax(1)} == {"tail"}


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ((1.0, 1.0), ("head",)),
        ((1.0, 0.1), ("head", "tail")),
        ((0.6, 0.7), ("middle",)),
        ((0.1, 0.2), ("tail",)),
    ],
)
def test_an_empty_band_is_left_out(keep, expected):
    data = bundle([0, 1], keep)
    assert BANDS.assign(data.train, data)[0] == expected


@pytest.mark.parametrize(
    ("tail_below", "middle_below", "key"),
    [
        (0.0, 0.9, "tail_below"),
        (-0.1, 0.9, "tail_below"),
        (0.91, 0.9, "tail_below"),
        (float("nan"), 0.9, "tail_below"),
        (0.5, 1.1, "middle_below"),
        (0.5, 0.0, "middle_below"),
        (0.5, float("nan"), "middle_below"),
        (0.5, float("inf"), "middle_below"),
    ],
)
def test_bad_edges_are_refused_by_their_key(tail_below, middle_below, key):
    with pytest.raises(ConfigError) as caught:
        Rarity(tail_below, middle_below)
    assert caught.value.key == key


def test_membership_follows_the_split_that_is_asked():
    data = bundle([0, 0, 0], (1.0, 1.0))
    assert BOTH.table(split([1, 0], "test"), data).membership[:, 1:3].tolist() == [
        [False, True],
        [True, False],
    ]


@pytest.mark.parametrize("kind", [Label(), BANDS], ids=["label", "rarity"])
def test_records_with_a_label_a_token_have_no_slices_by_label(kind):
    data = replace(bundle([0], (1.0,)), task="tokens")
    with pytest.raises(ConfigError, match="one label a record"):
        kind.assign(data.train, data)
