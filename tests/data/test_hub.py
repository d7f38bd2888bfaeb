from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from planted_files import SETTINGS, load, part, people, refusal, splits, write


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    datasets.disable_progress_bars()


@pytest.fixture
def csv(tmp_path):
    tight = [line.replace(", ", ",") for line in people()]
    return write(tmp_path / "people" / "train.csv", tight)


def pictures(folder, sizes=((4, 5),), mode="RGB"):
    """A folder of images by class; the pixel value of image i is i."""
    for i in range(40):
        height, width = sizes[i % len(sizes)]
        shape = (height, width) if mode == "L" else (height, width, 3)
        file = folder / ("zebra" if i % 2 else "ant") / f"{i:02d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full(shape, i, dtype=np.uint8)).save(file)
    return str(folder)


def test_columns_are_encoded_as_those_of_a_table(csv, tmp_path):
    extra = {"slices": ["job", "age"], "user": "who", "time": "day"}
    table = load("table", tmp_path, path=csv, **SETTINGS, **extra)
    pd.read_csv(csv, na_values=["?"]).to_parquet(tmp_path / "people.parquet")
    for path in (csv, str(tmp_path / "people"), str(tmp_path / "people.parquet")):
        hub = load("hub", tmp_path, path=path, **SETTINGS, **extra)
        assert hub.users == table.users
        assert hub.classes == table.classes
        assert hub.notes == table.notes
        for name in ("train", "validation", "test"):
            one, two = hub.split(name), table.split(name)
            assert np.array_equal(one.inputs, two.inputs)
            assert np.array_equal(one.labels, two.labels)
            assert np.array_equal(one.user, two.user)
            for column in two.columns:
                same = one.columns[column] == two.columns[column]
                assert (same | (one.columns[column] != one.columns[column])).all()


def test_a_test_split_of_its_own(csv, tmp_path):
    write(tmp_path / "people" / "test.csv", [line.replace(", ", ",") for line in people(12)])
    data = load("hub", tmp_path, path=str(tmp_path / "people"), test_split="test", **SETTINGS)
    assert [len(data.train), len(data.validation), len(data.test)] == [54, 6, 12]
    part_of = load("hub", tmp_path, path=csv, train_split="train[:40]", **SETTINGS)
    assert len(part_of.train) + len(part_of.validation) + len(part_of.test) == 40


def test_images_become_pixels_with_declared_classes(tmp_path):
    path = pictures(tmp_path / "pictures")
    data = load("hub", tmp_path, path=path, image="image", **{"class": "zebra", "keep": 0.5})
    assert data.classes == ("ant", "zebra")
    assert data.keep == (1.0, 0.5)
    assert np.bincount(data.train.labels).tolist() == [16, 8]
    assert data.train.inputs.shape[1:] == (3, 4, 5)
    assert data.notes == (
        "pixels divided by a declared constant; no statistic of the data is used",
    )
    # ImageFolder sorts by path: ants are the even values, zebras the odd ones.
    values = [*range(0, 40, 2), *range(1, 40, 2)]
    for split in splits(data):
        pixels = split.inputs[:, 0, 0, 0].numpy() * 255
        assert np.allclose(pixels, [values[row] for row in split.example])
        assert np.array_equal(split.labels.numpy(), pixels.round() % 2)


def test_size_and_mode_make_images_alike(tmp_path):
    path = pictures(tmp_path / "pictures", sizes=((4, 5), (8, 6)))
    error = refusal(load, "hub", tmp_path, path=path, image="image")
    assert error.key == "data.size"
    data = load("hub", tmp_path, path=path, image="image", size=[6, 3], mode="L")
    assert data.train.inputs.shape[1:] == (1, 6, 3)


def test_a_saved_data_set_is_read_where_it_lies(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"x": datasets.Value("float32"), "label": datasets.ClassLabel(names=["b", "a"])}
    )
    rows = {"x": list(range(40)), "label": [0, 1] * 20}
    one = datasets.Dataset.from_dict(rows, features=features)
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"fit": one}).save_to_disk(tmp_path / "many")
    data = load("hub", tmp_path, path=str(tmp_path / "one"), numeric=["x"])
    assert data.classes == ("b", "a")
    assert np.array_equal(data.train.labels.numpy(), data.train.example % 2)
    assert not any("classes" in note for note in data.notes)
    same = load("hub", tmp_path, path=str(tmp_path / "many"), numeric=["x"], train_split="fit")
    assert same.fingerprint == data.fingerprint
    error = refusal(load, "hub", tmp_path, path=str(tmp_path / "many"), numeric=["x"])
    assert error.key == "data.train_split"
    assert "fit" in str(error)


def test_a_withheld_label_is_refused_with_its_row(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"x": datasets.Value("int8"), "label": datasets.ClassLabel(names=["b", "a"])}
    )
    rows = {"x": [0] * 10, "label": [0, 1, 0, -1, 0, 1, 0, 1, 0, 1]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "one")
    error = refusal(load, "hub", tmp_path, path=str(tmp_path / "one"), numeric=["x"])
    assert error.key == "data.label"
    assert "row 4" in str(error)


def test_what_cannot_be_loaded_names_its_key(csv, tmp_path):
    folder = str(tmp_path / "people")
    cases = [
        ({"path": "???"}, "data.path"),
        ({"path": "nobody/nothing"}, "data.path"),
        ({"path": str(tmp_path / "none")}, "data.path"),
        ({"path": folder, "train_split": "trian"}, "data.train_split"),
        ({"path": folder, "test_split": "tset"}, "data.test_split"),
        ({"path": folder, "subset": "none"}, "data.subset"),
        ({"path": folder, "label": "lable"}, "data.label"),
        ({"path": folder, "image": "picture", "numeric": None, "categorical": None}, "data.image"),
        ({"path": folder, "image": "job", "numeric": None, "categorical": None}, "data.image"),
        ({"path": folder, "image": "job"}, "data.numeric"),
        ({"path": folder, "size": [0, 3]}, "data.size"),
    ]
    for changes, key in cases:
        assert refusal(load, "hub", tmp_path, **{**SETTINGS, **changes}).key == key, changes


def test_without_the_library_the_extra_is_named(csv, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    error = refusal(load, "hub", tmp_path, path=csv, **SETTINGS)
    assert error.key == "data.path"
    assert "pip install 'clipping-atlas[hub]'" in str(error)


def test_the_settings_are_built_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert part("data", "hub", path="nobody/nothing").name == "hub"
