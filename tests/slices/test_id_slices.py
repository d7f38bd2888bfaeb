from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_bundles import of_splits, split

from dpsgd.errors import ConfigError
from dpsgd.slices.ids import Ids


def _data(train=("a", "b", "c"), test=("d",)):
    def named(name, ids):
        return replace(split([0] * len(ids), name), example=np.array(ids))

    return of_splits(named("train", train), named("validation", ()), named("test", test))


def test_lists_may_overlap_and_reach_over_splits():
    data = _data()
    kind = Ids({"hard": ("a", "b", "d"), "猫": ("b",)})
    names, membership = kind.assign(data.train, data)
    assert names == ("hard", "猫") == kind.headings(data)
    assert membership.tolist() == [[True, False], [True, True], [False, False]]
    assert kind.assign(data.test, data)[1].tolist() == [[True, False]]


def test_ids_are_compared_as_text():
    data = _data((100, 101, 102), (103,))
    for ids in ((101, 103), ("101", "103")):
        assert Ids({"x": ids}).assign(data.train, data)[1].tolist() == [[False], [True], [False]]


def test_an_id_in_no_split_is_named():
    data = _data()
    with pytest.raises(ConfigError, match="zebra") as caught:
        Ids({"fine": ("a",), "odd": ("b", "zebra")}).assign(data.train, data)
    assert caught.value.key == "lists.odd"


def test_a_file_holds_an_id_a_line(tmp_path):
    file = tmp_path / "ids.txt"
    file.write_text("\ufeffa\r\n\n  d \nb\nb\n", encoding="utf-8")
    assert Ids({"hard": str(file)}) == Ids({"hard": ("a", "d", "b")})


def test_a_list_that_changed_is_another_setting_wherever_its_file_is(tmp_path):
    for name, content in {"here": "a\n", "there": "a\n", "changed": "b\n"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    here, there, changed = (
        Ids({"x": str(tmp_path / name)}) for name in ("here", "there", "changed")
    )
    assert here == there != changed


@pytest.mark.parametrize("content", [None, b"", b"\n \n", b"\xff\xfe\x00"])
def test_a_file_without_ids_is_refused(tmp_path, content):
    file = tmp_path / "ids.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Ids({"hard": str(file)})
    assert caught.value.key == "lists.hard"


@pytest.mark.parametrize(("lists", "key"), [({}, "lists"), ({"hard": ()}, "lists.hard")])
def test_nothing_listed_is_refused(lists, key):
    with pytest.raises(ConfigError) as caught:
        Ids(lists)
    assert caught.value.key == key
