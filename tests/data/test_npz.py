from __future__ import annotations

import numpy as np
import pytest
from planted_files import load, part, write_npz

from dpsgd.errors import ConfigError


def test_pixels_become_channels_first_and_lie_between_0_and_1(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    data = load("npz", tmp_path, path=path)
    stored = np.load(path)
    assert data.train.inputs.shape == (36, 1, 3, 4)
    both = np.concatenate([stored["x_train"], stored["x_test"]]).astype(np.float32)
    for split in (data.train, data.validation, data.test):
        assert np.array_equal(split.inputs[:, 0].numpy() * 255, both[split.example])


def test_colour_moves_in_front(tmp_path):
    colour = np.random.default_rng(1).integers(0, 256, (52, 3, 4, 2), dtype=np.uint8)
    path = write_npz(tmp_path / "a.npz", x_train=colour[:40], x_test=colour[40:])
    inputs = load("npz", tmp_path, path=path).test.inputs.numpy()
    assert inputs.shape == (12, 2, 3, 4)
    assert np.allclose(inputs * 255, colour[40:].transpose(0, 3, 1, 2))


def test_floats_are_taken_as_they_are(tmp_path):
    floats = np.random.default_rng(1).normal(size=(52, 3, 4))
    path = write_npz(tmp_path / "a.npz", x_train=floats[:40], x_test=floats[40:])
    data = load("npz", tmp_path, path=path)
    assert np.array_equal(data.test.inputs[:, 0].numpy(), floats[40:].astype(np.float32))
    assert any("as they are" in note for note in data.notes)


def test_train_and_validation_share_x_train_by_class_and_test_is_x_test(tmp_path):
    data = load("npz", tmp_path, path=write_npz(tmp_path / "a.npz"), validation=0.3)
    assert np.bincount(data.train.labels).tolist() == [7] * 4
    assert np.bincount(data.validation.labels).tolist() == [3] * 4
    rows = np.concatenate([data.train.example, data.validation.example])
    assert sorted(rows) == list(range(40))
    assert data.test.example.tolist() == list(range(40, 52))


def test_the_seed_of_the_data_moves_validation_and_nothing_else(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    first, again, other = (load("npz", tmp_path, path=path, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert np.array_equal(first.test.example, other.test.example)
    assert not np.array_equal(first.validation.example, other.validation.example)


def test_only_the_tail_class_of_train_is_thinned(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    whole = load("npz", tmp_path, path=path)
    tail = load("npz", tmp_path, path=path, **{"class": 2, "keep": 0.25})
    assert tail.keep == (1.0, 1.0, 0.25, 1.0)
    assert np.bincount(tail.train.labels).tolist() == [9, 9, 2, 9]
    assert set(tail.train.example) < set(whole.train.example)
    assert np.array_equal(tail.validation.example, whole.validation.example)
    assert np.array_equal(tail.test.example, whole.test.example)


def test_declared_classes_name_the_labels_and_leave_nothing_to_note(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    named = load("npz", tmp_path, path=path, classes=["hat", "bag", "shoe", "coat"])
    found = load("npz", tmp_path, path=path)
    assert named.classes == ("hat", "bag", "shoe", "coat")
    assert found.classes == ("0", "1", "2", "3")
    assert np.array_equal(named.train.labels, found.train.labels)
    assert any("classes" in note and "not covered by ε" in note for note in found.notes)
    assert not any("not covered" in note for note in named.notes)


def test_labels_with_gaps_between_them_are_numbered_in_order(tmp_path):
    labels = np.array([5, 30, 7, 100])[np.arange(52) % 4][:, None]
    path = write_npz(tmp_path / "a.npz", y_train=labels[:40], y_test=labels[40:])
    data = load("npz", tmp_path, path=path)
    assert data.classes == ("5", "7", "30", "100")
    assert data.test.labels.tolist() == [0, 2, 1, 3] * 3


REFUSED = {
    "a missing array": ({"y_test": None}, "y_test.*x_train"),
    "a label too few": ({"y_train": np.zeros(39, np.uint8)}, "39"),
    "flat images": ({"x_train": np.zeros((40, 12), np.uint8)}, r"\[n, h, w\]"),
    "wide integers": ({"x_train": np.zeros((40, 3, 4), np.int64)}, "int64"),
    "other sizes": ({"x_test": np.zeros((12, 4, 4), np.uint8)}, r"\[1, 4, 4\]"),
    "not finite": ({"x_train": np.full((40, 3, 4), np.nan)}, "finite"),
    "fractions as labels": ({"y_train": np.zeros(40)}, "float64"),
    "pickles": ({"y_train": np.array([None] * 40)}, "pickle"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_that_cannot_be_used_are_refused(case, tmp_path):
    changes, words = REFUSED[case]
    path = write_npz(tmp_path / "a.npz", **changes)
    with pytest.raises(ConfigError, match=words) as caught:
        load("npz", tmp_path, path=path)
    assert caught.value.key.startswith("data.")


def test_a_file_that_is_not_there_or_no_npz_names_the_path(tmp_path):
    (tmp_path / "b.npz").write_text("no npz")
    np.save(tmp_path / "c.npy", np.zeros(3))
    for path in (
        "???",
        str(tmp_path / "none.npz"),
        str(tmp_path / "b.npz"),
        str(tmp_path / "c.npy"),
    ):
        with pytest.raises(ConfigError) as caught:
            load("npz", tmp_path, path=path)
        assert str(caught.value).splitlines()[0].startswith("data.path=")


@pytest.mark.parametrize("classes", [None, ["a", "b", "c", "d"], ["a", "b"]])
def test_a_label_without_a_name_is_refused_with_its_row(classes, tmp_path):
    labels = np.arange(12, dtype=np.uint8) % 4
    labels[5] = 9
    path = write_npz(tmp_path / "a.npz", y_test=labels)
    with pytest.raises(ConfigError, match="row") as caught:
        load("npz", tmp_path, path=path, classes=classes)
    assert caught.value.key == "data.classes"


@pytest.mark.parametrize(
    ("key", "value"),
    [("validation", 0.0), ("validation", 1.0), ("keep", 0.0), ("class", "x"), ("seed", -1)],
)
def test_settings_out_of_range_are_refused_by_key(key, value):
    with pytest.raises(ConfigError) as caught:
        part(
            "data",
            "npz",
            path="a.npz",
            classes=["a", "b"],
            **{"keep": 0.5, "class": "a", key: value},
        )
    assert caught.value.key == f"data.{key}"


def test_a_class_that_only_the_data_know_is_checked_when_they_are_read(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    for changes in ({"class": 7, "keep": 0.5}, {"class": None, "keep": 0.5}, {"class": "7"}):
        with pytest.raises(ConfigError, match="0, 1, 2, 3") as caught:
            load("npz", tmp_path, path=path, **changes)
        assert caught.value.key == "data.class"
