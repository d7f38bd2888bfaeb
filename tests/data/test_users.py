from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from planted_files import load, part, write_npz

from dpsgd.data.bundle import Bundle, Split, with_fingerprint
from dpsgd.errors import ConfigError


def bundle(labels: np.ndarray, classes: int = 3) -> Bundle:
    splits = {
        name: Split(
            name, torch.zeros(len(part), 2), torch.from_numpy(part), np.arange(len(part)), {},
            np.zeros(len(part), dtype=np.int64),
        )
        for name, part in (("train", labels), ("validation", labels[:3]), ("test", labels[:3]))
    }  # fmt: skip
    return Bundle(
        name="planted", **splits, classes=tuple("abcdef"[:classes]), keep=(1.0,) * classes,
        holdout="public", notes=("a note",), users=("somebody",),
    )  # fmt: skip


LABELS = np.random.default_rng(0).integers(0, 3, 3000)


def shares(data: Bundle, classes: int = 3) -> np.ndarray:
    """Share of each class that each user holds, [classes, users]."""
    owner, labels = data.train.user, data.train.labels.numpy()
    counts = [np.bincount(owner[labels == k], minlength=len(data.users)) for k in range(classes)]
    return np.stack(counts) / np.bincount(labels)[:, None]


def test_given_owners_are_left_alone():
    data = bundle(LABELS)
    assert part("users", "given").assign(data, 0) is data


def test_every_training_record_has_one_owner_and_no_other_record_has():
    data = part("users", "dirichlet", count=7).assign(bundle(LABELS), 0)
    assert data.users == tuple(f"user {i}" for i in range(7))
    assert data.train.user.dtype == np.int64
    assert len(data.train.user) == len(data.train)
    assert data.validation.user is None
    assert data.test.user is None
    assert "users are a synthetic Dirichlet partition" in data.notes
    assert "a note" in data.notes


def test_nothing_but_the_owners_changes():
    before, after = bundle(LABELS), part("users", "dirichlet").assign(bundle(LABELS), 0)
    for name in ("train", "validation", "test"):
        assert torch.equal(before.split(name).labels, after.split(name).labels)
        assert np.array_equal(before.split(name).example, after.split(name).example)
    assert with_fingerprint(after).fingerprint != with_fingerprint(before).fingerprint


def test_the_same_seed_deals_alike_and_another_does_not():
    deal = [part("users", "dirichlet").assign(bundle(LABELS), s).train.user for s in (3, 3, 4)]
    assert np.array_equal(deal[0], deal[1])
    assert not np.array_equal(deal[0], deal[2])


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0, 50.0])
def test_shares_have_the_mean_and_variance_of_the_dirichlet(alpha):
    # Var p = (1/K)(1 − 1/K)/(Kα + 1), pooled over seeds and classes.
    count, seeds = 5, 60
    source = part("users", "dirichlet", count=count, alpha=alpha)
    found = np.concatenate([shares(source.assign(bundle(LABELS), seed)) for seed in range(seeds)])
    expected = (1 / count) * (1 - 1 / count) / (count * alpha + 1)
    assert found.mean() == pytest.approx(1 / count)
    assert found.var() == pytest.approx(expected, rel=0.15, abs=2e-4)
    assert np.abs(found.mean(0) - 1 / count).max() < 5 * np.sqrt(expected / len(found)) + 1e-3


def test_classes_are_dealt_apart_from_each_other():
    found = [
        shares(part("users", "dirichlet", count=4, alpha=1.0).assign(bundle(LABELS), seed))
        for seed in range(200)
    ]
    pairs = np.stack(found)[:, :2, 0]
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.25


def test_users_without_a_record_are_users():
    data = part("users", "dirichlet", count=500, alpha=0.05).assign(bundle(LABELS[:50]), 0)
    assert len(data.users) == 500
    assert len(np.unique(data.train.user)) < 50


def test_one_user_owns_everything():
    data = part("users", "dirichlet", count=1).assign(bundle(LABELS), 0)
    assert set(data.train.user) == {0}


def test_a_class_without_records_is_no_trouble():
    data = part("users", "dirichlet", count=3).assign(bundle(LABELS, classes=6), 0)
    assert set(data.train.user) == {0, 1, 2}


def test_a_tail_is_dealt_as_it_is(tmp_path):
    data = load("npz", tmp_path, path=write_npz(tmp_path / "a.npz"), **{"class": "1", "keep": 0.2})
    dealt = part("users", "dirichlet", count=3).assign(data, 0)
    assert len(dealt.train.user) == len(data.train)


@pytest.mark.parametrize(
    ("key", "value"),
    [("count", 0), ("count", -3), ("alpha", 0.0), ("alpha", -1.0), ("alpha", float("inf")),
     ("alpha", float("nan"))],
)  # fmt: skip
def test_impossible_partitions_are_refused_by_key(key, value):
    with pytest.raises(ConfigError) as caught:
        part("users", "dirichlet", **{key: value})
    assert caught.value.key == f"users.{key}"


def test_data_without_classes_cannot_be_dealt_by_class():
    tokens = replace(bundle(LABELS), task="tokens")
    with pytest.raises(ConfigError, match="classes"):
        part("users", "dirichlet").assign(tokens, 0)
