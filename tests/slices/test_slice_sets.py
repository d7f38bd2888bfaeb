from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from planted_bundles import bundle, of_splits, split, with_columns

from analysis.schema import SLICE_KINDS
from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_part
from dpsgd.slices import SliceSet
from dpsgd.slices.bins import Bins
from dpsgd.slices.column import Column
from dpsgd.slices.ids import Ids
from dpsgd.slices.label import Label
from dpsgd.slices.pair import Pair
from dpsgd.slices.rarity import Rarity

CONF = Path(__file__).parents[2] / "conf" / "slices"
BANDS = Rarity(tail_below=0.5, middle_below=0.95)
ODD_NAMES = ("NA", "cat (small)", "8$/x", "猫", "nan", "a=b, c", " ", "all")


def _set(most=None, **kinds):
    return SliceSet(name="planted", kinds=kinds, most_memberships=most)


BOTH = _set(2, label=Label(), rarity=BANDS)


def _table_of_people():
    train = {
        "sex": np.array(["F", "M", "M"]),
        "race": np.array(["B", "W", "B"]),
        "age": np.array([20.0, 30.0, 70.0]),
        "hours": np.array([10, 50, 50]),
    }
    return with_columns(train)


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
    table = _set(label=Label()).table(data.train, data)
    assert tuple(name for kind, name in table.keys if kind == "label") == ODD_NAMES
    assert table.columns() == {"label": [ODD_NAMES[i] for i in rows]}


def test_tail_classes_are_those_of_the_bands_if_any_are_asked_for():
    data = bundle([0, 1], (1.0, 0.1))
    assert BOTH.tail_classes(data) == (1,)
    assert _set(label=Label()).tail_classes(data) == ()


@dataclass(frozen=True)
class _OfNoKnownKind:
    kind: str

    def assign(self, split, bundle):
        return ("x",), np.ones((len(split), 1), dtype=bool)


@pytest.mark.parametrize("kind", ["colour", "all"])
def test_a_kind_outside_the_closed_list_is_refused(kind):
    data = bundle([0], (1.0,))
    with pytest.raises(ConfigError, match="label, rarity"):
        _set(odd=_OfNoKnownKind(kind)).table(data.train, data)


def test_a_slice_named_twice_is_refused():
    data = bundle([0], (1.0,))
    with pytest.raises(ConfigError, match="label/0"):
        _set(label=Label(), again=Label()).table(data.train, data)


def test_several_entries_of_one_kind_stand_beside_each_other():
    data = _table_of_people()
    slices = _set(
        columns=Column(None),
        pairs=Pair((("sex", "race"),)),
        age=Bins("age", (25.0,)),
        work=Bins("hours", (40.0,)),
        mine=Ids({"old": (102,), "first": (100, 102)}),
    )
    assert slices.table(data.train, data).columns() == {
        "sex": ["sex=F", "sex=M", "sex=M"],
        "race": ["race=B", "race=W", "race=B"],
        "sex × race": ["sex=F & race=B", "sex=M & race=W", "sex=M & race=B"],
        "age": ["age<25", "age≥25", "age≥25"],
        "work": ["hours<40", "hours≥40", "hours≥40"],
        "old": [None, None, "old"],
        "first": ["first", None, "first"],
    }


def test_a_column_called_like_a_key_is_told_apart_by_its_kind():
    data = with_columns({"label": np.array(["x", "y"]), "sex": np.array(["F", "M"])})
    for slices in (
        _set(label=Label(), columns=Column(None), lists=Ids({"sex": (100,)})),
        _set(lists=Ids({"sex": (100,)}), columns=Column(None), label=Label()),
    ):
        assert slices.table(data.train, data).columns() == {
            "label": ["0", "0"],
            "column label": ["label=x", "label=y"],
            "column sex": ["sex=F", "sex=M"],
            "ids sex": ["sex", None],
        }


def test_a_record_in_more_slices_than_declared_is_named_in_training_only():
    data = _table_of_people()
    kinds = {"label": Label(), "mine": Ids({"a": (101,), "b": (101, 102)})}
    assert _set(3, **kinds).table(data.train, data).membership[:, 1:].sum(1).max() == 3
    assert _set(None, **kinds).table(data.train, data).membership.any()
    with pytest.raises(ConfigError, match="example 101 is in 3") as caught:
        _set(2, **kinds).table(data.train, data)
    assert caught.value.key == "slices.most_memberships"
    assert _set(2, **kinds).table(replace(data.train, name="test"), data).membership.any()


@pytest.mark.parametrize("most", [0, -1])
def test_nobody_can_be_in_less_than_one_slice(most):
    with pytest.raises(ConfigError, match="1 or more"):
        _set(most, label=Label())


def test_a_part_is_the_slices_of_its_key():
    data = _table_of_people()
    slices = _set(label=Label(), sex=Column(("sex",)), age=Bins("age", (25.0,)))
    for key in slices.kinds:
        names, membership = slices.part(key, data.train, data)
        known, same = slices.kinds[key].assign(data.train, data)
        assert names == known
        assert (membership == same).all()


def test_a_part_that_is_not_there_is_refused_with_those_there_are():
    data = _table_of_people()
    with pytest.raises(ConfigError, match=r"label, sex \(did you mean 'label'\?\)") as caught:
        _set(label=Label(), sex=Column(("sex",))).part("lable", data.train, data)
    assert caught.value.key == "slices.kinds"


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Column(None), "example 100 of train is in 2"), (Ids({"a": (100,)}), "example 101 .* in 0")],
)
def test_a_part_that_is_no_partition_names_the_example(kind, words):
    data = _table_of_people()
    with pytest.raises(ConfigError, match=words):
        _set(mine=kind).part("mine", data.train, data)


def test_an_error_of_a_kind_has_the_key_of_its_entry():
    data = _table_of_people()
    with pytest.raises(ConfigError) as caught:
        _set(mine=Column(("sexe",))).table(data.train, data)
    assert caught.value.key == "slices.kinds.mine.columns"


@pytest.mark.parametrize(
    "kinds",
    [
        {"label": {"_target_": "dpsgd.slices.label.Label"}, "mine": {"columns": None}},
        {"mine": {"columns": None}},
        {"label": {"_target_": "dpsgd.slices.label.Label"}, "mine": None},
    ],
)
def test_an_entry_without_its_class_is_refused_by_its_key(kinds):
    node = {"_target_": "dpsgd.slices.table.SliceSet", "name": "x", "most_memberships": None}
    with pytest.raises(ConfigError) as caught:
        build_part({**node, "kinds": kinds}, "slices")
    assert caught.value.key == "slices.kinds.mine"


SETTINGS = {
    "pair.Pair": ("pairs: [[sex, race]]", "sex=F & race=B"),
    "bins.Bins": ("column: age, edges: [25, 45.5]", "25≤age<45.5"),
    "column.Column": ("columns: [sex]", "sex=F"),
    "ids.Ids": ("lists: {hard: [100, '101']}", "hard"),
}


@pytest.mark.parametrize("target", SETTINGS)
def test_settings_are_read_from_yaml(target):
    settings, name = SETTINGS[target]
    node = OmegaConf.create(f"{{_target_: dpsgd.slices.{target}, {settings}}}")
    data = _table_of_people()
    kind = build_part(OmegaConf.to_container(node), "slices.kinds.x")
    assert name in kind.assign(data.train, data)[0]
    assert hash(getattr(kind, "columns", ())) is not None


def test_a_date_in_yaml_needs_no_quotes():
    text = "{_target_: dpsgd.slices.bins.Bins, column: day, edges: [2016-01-01, '2017-01-01']}"
    kind = build_part(OmegaConf.to_container(OmegaConf.create(text)), "slices.kinds.x")
    assert kind == Bins("day", ("2016-01-01", "2017-01-01"))


def _data_for_every_option():
    columns = {"sex": np.array(["F", "M"]), "age": np.array([20.0, 30.0])}
    return of_splits(
        split([0, 1], "train", columns, [0, 0]),
        split([], "validation", {name: it[:0] for name, it in columns.items()}, []),
        split([1, 0], "test", columns, [0, 1]),
        keep=(1.0, 0.1),
        users=("a", "b"),
    )


@pytest.mark.parametrize("file", sorted(CONF.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_option_makes_a_table(file):
    slices = build_part(OmegaConf.to_container(OmegaConf.load(file)), "slices")
    assert slices.name == file.stem
    data = _data_for_every_option()
    tables = [slices.table(part, data) for part in (data.train, data.validation, data.test)]
    assert len({table.keys for table in tables}) == 1
    kinds = {kind for kind, _ in tables[0].keys}
    assert kinds <= set(SLICE_KINDS)
    assert kinds == {"all", *(kind.kind for kind in slices.kinds.values())}
    assert all(table.membership[:, 1:].any(axis=None) for table in (tables[0], tables[2]))
    if slices.most_memberships is not None:
        # Declared as it is, for a larger number would only add noise.
        assert tables[0].membership[:, 1:].sum(1).max() == slices.most_memberships
