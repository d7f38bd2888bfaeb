from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from planted_bundles import bundle, split

from analysis.schema import SLICE_KINDS
from dpsgd.errors import ConfigError
from dpsgd.slices import SliceSet
from dpsgd.slices.label import Label
from dpsgd.slices.rarity import Rarity

CONF = Path(__file__).parents[2] / "conf" / "slices"
BANDS = Rarity(tail_below=0.5, middle_below=0.95)
BOTH = SliceSet(name="both", kinds={"label": Label(), "rarity": BANDS})
ODD_NAMES = ("NA", "cat (small)", "8$/x", "猫", "nan", "a=b, c", " ", "all")

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


def test_all_comes_first_and_holds_everything():
    data = bundle([0, 1, 1], (1.0, 0.1))
    table = BOTH.table(data.train, data)
    assert table.keys == (
        ("all", "all"),
        ("label", "0"),
        ("label", "1"),
        ("rarity", "head"),
        ("rarity", "tail"),
    )
    assert table.membership[:, 0].all()
    assert table.membership.shape == (3, 5)


def test_columns_say_the_slice_of_every_row():
    data = bundle([0, 1, 2, 1], (1.0, 0.7, 0.1), ("a", "b", "c"))
    assert BOTH.table(data.train, data).columns() == {
        "label": ["a", "b", "c", "b"],
        "rarity": ["head", "middle", "tail", "middle"],
    }
    assert BOTH.table(data.validation, data).columns() == {"label": [], "rarity": []}


def test_odd_class_names_stay_as_they_are():
    rows = list(range(len(ODD_NAMES))) * 2
    data = bundle(rows, [1.0] * len(ODD_NAMES), ODD_NAMES)
    table = SliceSet("label", {"label": Label()}).table(data.train, data)
    assert tuple(name for kind, name in table.keys if kind == "label") == ODD_NAMES
    assert table.columns() == {"label": [ODD_NAMES[i] for i in rows]}


def test_tail_classes_are_those_of_the_bands_if_any_are_asked_for():
    data = bundle([0, 1], (1.0, 0.1))
    assert BOTH.tail_classes(data) == (1,)
    assert SliceSet("label", {"label": Label()}).tail_classes(data) == ()


@dataclass(frozen=True)
class _OfNoKnownKind:
    kind: str

    def assign(self, split, bundle):
        return ("x",), np.ones((len(split), 1), dtype=bool)


@pytest.mark.parametrize("kind", ["colour", "all"])
def test_a_kind_outside_the_closed_list_is_refused(kind):
    data = bundle([0], (1.0,))
    with pytest.raises(ConfigError, match="label, rarity"):
        SliceSet("odd", {"odd": _OfNoKnownKind(kind)}).table(data.train, data)


def test_a_slice_named_twice_is_refused():
    data = bundle([0], (1.0,))
    with pytest.raises(ConfigError, match="label/0"):
        SliceSet("odd", {"label": Label(), "again": Label()}).table(data.train, data)


@pytest.mark.parametrize("file", sorted(CONF.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_option_makes_a_table(file):
    slices = instantiate(OmegaConf.load(file), _convert_="all")
    assert slices.name == file.stem
    data = bundle([0, 1], (1.0, 0.1), test=[1, 0, 0])
    table = slices.table(data.test, data)
    kinds = {kind for kind, _ in table.keys}
    assert kinds <= set(SLICE_KINDS)
    assert kinds == {"all", *file.stem.split("_")}
    assert table.membership[:, 1:].any(axis=None)


def test_membership_follows_the_split_that_is_asked():
    data = bundle([0, 0, 0], (1.0, 1.0))
    assert BOTH.table(split([1, 0], "test"), data).membership[:, 1:3].tolist() == [
        [False, True],
        [True, False],
    ]
