import numpy as np
import pytest
import torch

from dpsgd.data.bundle import Bundle, Split
from dpsgd.data.images import Digits
from dpsgd.data.tail import keep_shares
from dpsgd.errors import ConfigError
from dpsgd.slices import SliceSet
from dpsgd.slices.label import Label
from dpsgd.slices.rarity import Rarity

CLASSES = ("NA", "cat (small)", "8$/x", "猫")


def _bundle(keep=(1.0, 0.8, 0.25, 1.0)):
    labels = torch.tensor([0, 1, 2, 3, 0])
    split = Split("train", torch.zeros(5, 2), labels, np.arange(5), {})
    return Bundle("b", split, split, split, CLASSES, keep, "public", "f", ())


def test_labels_and_bands_are_partitions():
    bundle = _bundle()
    slices = SliceSet("s", {"label": Label(), "rarity": Rarity(0.5, 0.95)})
    table = slices.table(bundle.train, bundle)
    assert table.keys[0] == ("all", "all")
    for kind in ("label", "rarity"):
        own = [i for i, key in enumerate(table.keys) if key[0] == kind]
        assert (table.membership[:, own].sum(1) == 1).all()
    assert table.columns()["label"] == ["NA", "cat (small)", "8$/x", "猫", "NA"]
    assert table.columns()["rarity"] == ["head", "middle", "tail", "head", "head"]
    assert slices.tail_classes(bundle) == (2,)


def test_empty_bands_are_left_out():
    bundle = _bundle((1.0, 1.0, 1.0, 1.0))
    assert Rarity(0.5, 0.95).assign(bundle.train, bundle)[0] == ("head",)


def test_bad_edges_are_refused():
    with pytest.raises(ConfigError, match="tail_below"):
        Rarity(0.9, 0.5)


def test_an_exponential_profile_falls_from_one_to_keep():
    shares = keep_shares("exponential", 0.01, "0", tuple("abc"))
    assert shares == pytest.approx((1.0, 0.1, 0.01))


def test_splits_are_disjoint_and_the_tail_is_kept_at_its_share(tmp_path):
    data = Digits("digits", 0, "8", 0.25, "one_class", 0.8, 0.1, "public")
    bundle = data.load(tmp_path)
    parts = [set(s.example.tolist()) for s in (bundle.train, bundle.validation, bundle.test)]
    assert len(set.union(*parts)) == sum(map(len, parts))
    whole = Digits("digits", 0, "8", 1.0, "one_class", 0.8, 0.1, "public").load(tmp_path)
    count = lambda b: int((b.train.labels == 8).sum())  # noqa: E731
    assert count(bundle) == round(0.25 * count(whole))
    assert bundle.fingerprint == data.load(tmp_path).fingerprint != whole.fingerprint
    assert (bundle.test.example == whole.test.example).all()
