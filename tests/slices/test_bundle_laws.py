from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from planted_bundles import bundle, split, with_users

from dpsgd.data.bundle import Split, fingerprint_of
from dpsgd.errors import ConfigError


@pytest.mark.parametrize("short", ["inputs", "labels", "example", "columns", "user"])
def test_unequal_lengths_are_refused(short):
    whole = {
        "inputs": torch.zeros(3, 2),
        "labels": torch.zeros(3, dtype=torch.int64),
        "example": np.arange(3),
        "columns": {"source": np.array(["a", "b", "c"])},
        "user": np.arange(3),
    }
    cut = {"source": whole["columns"]["source"][:2]} if short == "columns" else whole[short][:2]
    Split("test", **whole)
    with pytest.raises(ConfigError, match="unequal lengths"):
        Split("test", **{**whole, short: cut})


@pytest.mark.parametrize("label", [-1, 2])
@pytest.mark.parametrize("name", ["train", "test"])
def test_a_label_outside_the_classes_is_refused(label, name):
    labels = {"train": [0, 1], "test": [0]}
    labels[name] = [0, label]
    with pytest.raises(ConfigError, match=f"{name}: .*outside its classes"):
        bundle(labels["train"], (1.0, 1.0), test=labels["test"])


def test_each_class_needs_a_share_and_a_name_of_its_own():
    with pytest.raises(ConfigError, match="needs 2 shares"):
        bundle([0], (1.0,), ("a", "b"))
    with pytest.raises(ConfigError, match="name of its own"):
        bundle([0], (1.0, 1.0), ("a", "a"))


@pytest.mark.parametrize("user", [-1, 2])
def test_a_record_of_an_unknown_user_is_refused(user):
    assert len(with_users([0, 1], [1], users=2).users) == 2
    with pytest.raises(ConfigError, match=r"test: .*unknown user"):
        with_users([0, 1], [user], users=2)


def test_a_split_is_found_by_name():
    data = bundle([0, 1], (1.0, 1.0))
    assert data.split("train") is data.train
    assert data.split("validation") is data.validation
    assert data.split("test") is data.test
    with pytest.raises(ConfigError, match="train, validation, test"):
        data.split("valid")


def test_a_split_may_be_empty():
    assert len(bundle([0], (1.0,)).validation) == 0


def test_the_fingerprint_knows_every_array():
    base = split([0, 1, 1], columns={"source": np.array(["a", "b", "c"])})
    other = [
        replace(base, name="test"),
        replace(base, inputs=base.inputs + 1),
        replace(base, inputs=base.inputs.double()),
        replace(base, labels=base.labels.flip(0)),
        replace(base, example=base.example + 1),
        replace(base, columns={"source": np.array(["a", "b", "d"])}),
        replace(base, columns={"origin": base.columns["source"]}),
        replace(base, columns={}),
        replace(base, user=np.array([0, 0, 1])),
        replace(base, user=np.array([0, 1, 1])),
    ]
    prints = {fingerprint_of([case]) for case in (base, *other)}
    assert len(prints) == len(other) + 1
    assert all(len(mark) == 64 and int(mark, 16) >= 0 for mark in prints)
    assert fingerprint_of([base]) == fingerprint_of([replace(base, inputs=base.inputs.clone())])


def test_the_fingerprint_reads_rows_in_order_of_the_view():
    base = split([0, 1, 1])
    turned = replace(base, inputs=base.inputs.T.contiguous().T)
    assert fingerprint_of([base]) == fingerprint_of([turned])


def test_the_fingerprint_reads_words_and_not_their_addresses():
    def words(last):
        # Built anew, so that equal words are other objects.
        return np.array(["".join(("a", "b")), None, last], dtype=object)

    cells = ["None", None, "1", 1, 1.0, "nan", float("nan"), True, "a", "a\0"]
    prints = [fingerprint_of([split([0, 1, 1], columns={"word": words(last)})]) for last in cells]
    assert len(set(prints)) == len(cells)
    base = split([0, 1, 1], columns={"word": words("c")})
    assert base.columns["word"][0] is not words("c")[0]
    assert fingerprint_of([base]) == fingerprint_of([replace(base, columns={"word": words("c")})])
    assert fingerprint_of([base]) != fingerprint_of([replace(base, columns={"word": words("d")})])
