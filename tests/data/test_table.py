from __future__ import annotations

import numpy as np
import pytest
from planted_files import people, splits, write


def test_each_record_is_in_one_split_and_classes_are_split_alike(table):
    data = table()
    assert sorted(np.concatenate([s.example for s in splits(data)])) == list(range(60))
    assert [np.bincount(s.labels).tolist() for s in splits(data)] == [[24, 24], [3, 3], [3, 3]]


def test_labels_are_those_of_their_rows(table):
    data = table()
    assert data.classes == ("no", "yes")
    for split in splits(data):
        assert np.array_equal(split.labels.numpy(), split.example % 2)


def test_a_test_file_is_the_test_split_and_the_shares_divide_the_rest(table, tmp_path):
    test = write(tmp_path / "test.csv", people(20))
    data = table(test_path=test, train=0.6, validation=0.2)
    assert [len(s) for s in splits(data)] == [44, 16, 20]
    assert data.test.example.tolist() == list(range(60, 80))


def test_rounding_loses_no_record_beside_a_test_file(table, tmp_path):
    lines = people(10)
    test = write(tmp_path / "test.csv", lines)
    data = table(lines, test_path=test, train=0.5, validation=0.5)
    assert [len(s) for s in splits(data)] == [6, 4, 10]


def test_only_the_tail_class_of_train_is_thinned(table):
    whole, tail = table(), table(**{"class": "yes", "keep": 0.25})
    assert tail.keep == (1.0, 0.25)
    assert np.bincount(tail.train.labels).tolist() == [24, 6]
    assert np.array_equal(tail.test.example, whole.test.example)
    assert np.array_equal(tail.validation.example, whole.validation.example)


def test_a_label_that_yaml_reads_as_a_number_is_the_same_class(table):
    lines = [line.replace("yes", "1").replace("no", "0") for line in people()]
    assert table(lines, **{"class": 1, "keep": 0.25}).keep == (1.0, 0.25)
    assert table(lines, label_map={0: "b", 1: "a"}).classes == ("b", "a")


def test_numbers_as_labels_are_sorted_as_numbers(table):
    lines = ["x,label", *(f"{i},{(2, 10, 1)[i % 3]}" for i in range(60))]
    assert table(lines, numeric=["x"], categorical=None).classes == ("1", "2", "10")


def test_listed_numbers_are_scaled_by_the_training_split_and_say_so(table):
    data = table()
    for column in (0, 2):
        train = data.train.inputs[:, column].numpy().astype(np.float64)
        known = data.train.inputs[:, column + 1].numpy() == 0
        assert train[known].mean() == pytest.approx(0, abs=1e-6)
        assert train[known].std() == pytest.approx(1, abs=1e-6)
    note = "mean and std of age, income computed from private training data, not covered by ε"
    assert note in data.notes


def test_a_test_record_changes_no_training_input(table, tmp_path):
    lines = people(20)
    one = table(test_path=write(tmp_path / "a.csv", lines))
    lines[1] = lines[1].replace("20,", "9000,").replace("?,", "astronaut,")
    two = table(test_path=write(tmp_path / "a.csv", lines))
    assert np.array_equal(one.train.inputs, two.train.inputs)
    assert not np.array_equal(one.test.inputs, two.test.inputs)


def test_declared_constants_scale_and_leave_nothing_to_note(table):
    constants = {"age": {"mean": 40, "std": 10}, "income": {"mean": 0, "std": 1}}
    words = {"job": ["clerk", "smith", "baker"]}
    data = table(numeric=constants, categorical=words, label_map={"no": "no", "yes": "yes"})
    rows = data.train.example
    expected = np.where(rows == 7, 0, (20 + rows - 40) / 10)
    assert np.allclose(data.train.inputs[:, 0], expected)
    assert not any("computed" in note for note in data.notes)


def test_a_missing_number_is_the_mean_has_an_indicator_and_is_counted(table):
    data = table()
    for split in splits(data):
        gap = split.example == 7
        assert np.array_equal(split.inputs[:, 1].numpy() == 1, gap)
        assert (split.inputs[gap, 0] == 0).all()
    counts = "/".join(str(int((s.example == 7).sum())) for s in splits(data))
    assert any(f"age {counts}" in note and "missing" in note for note in data.notes)


def test_words_are_one_hot_with_places_of_their_own_for_gaps_and_the_unseen(table, tmp_path):
    lines = people(20)
    lines[2] = lines[2].replace("clerk", "astronaut")
    data = table(test_path=write(tmp_path / "test.csv", lines), numeric=None)
    # Sorted words, then the gap, then the unseen.
    place = {"baker": 0, "clerk": 1, "smith": 2}
    jobs = [("?", "clerk", "smith", "baker")[i % 4] for i in range(60)]
    for row, inputs in zip(data.train.example, data.train.inputs.numpy(), strict=True):
        assert inputs.tolist() == [float(i == place.get(jobs[row], 3)) for i in range(5)]
    assert data.test.inputs[1].tolist() == [0, 0, 0, 0, 1]
    assert any(note.startswith("unseen") and "job 0/0/1" in note for note in data.notes)
    assert any("vocabulary of job computed" in note for note in data.notes)


def test_the_width_follows_from_settings_when_they_declare_all(table):
    words = {"job": ["clerk", "pilot"]}
    assert table(categorical=words).train.inputs.shape[1] == 2 * 2 + 2 + 2
    assert any("unseen" in note for note in table(categorical=words).notes)


def test_logarithm_comes_before_scaling_and_clipping_after(table):
    constants = {"age": {"mean": 40, "std": 10}, "income": {"mean": 1, "std": 0.5}}
    plain = table(numeric=constants, log=["income"])
    income = 100.0 * (plain.train.example % 3)
    expected = (np.log1p(income) - 1) / 0.5
    assert np.allclose(plain.train.inputs[:, 2], expected)
    cut = table(numeric=constants, log=["income"], clip=1.5)
    assert np.allclose(cut.train.inputs[:, 2], expected.clip(-1.5, 1.5))
    assert np.array_equal(cut.train.inputs[:, 4:], plain.train.inputs[:, 4:])


def test_a_constant_and_an_empty_column_become_zeros(table):
    lines = ["a,b,label", *(f"5,,{i % 2}" for i in range(40))]
    inputs = table(lines, numeric=["a", "b"], categorical=None).train.inputs
    assert inputs.tolist() == [[0, 0, 0, 1]] * 32


def test_a_declared_word_is_never_a_gap(table):
    lines = ["c,label", *(f"{('NA', 'DE')[i % 2]},{i % 2}" for i in range(40))]
    gap = table(lines, numeric=None, categorical=["c"])
    word = table(lines, numeric=None, categorical={"c": ["NA", "DE"]})
    assert gap.train.inputs.sum(0).tolist() == [16, 16, 0]
    assert word.train.inputs.sum(0).tolist() == [16, 16, 0, 0]
    assert any("missing" in note for note in gap.notes)
    assert not any("missing" in note for note in word.notes)
