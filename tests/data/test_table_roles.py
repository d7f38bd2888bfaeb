from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted_files import people, refusal, splits, write


def test_label_map_names_classes_in_its_order(table, tmp_path):
    test = write(tmp_path / "test.csv", [line.replace("yes", "yes.") for line in people(20)])
    pairs = [["yes", "rich"], ["yes.", "rich"], ["no", "poor"]]
    data = table(test_path=test, label_map=pairs)
    assert data.classes == ("rich", "poor")
    assert np.array_equal(data.test.labels.numpy(), 1 - np.arange(20) % 2)
    assert data.fingerprint == table(test_path=test, label_map=dict(pairs)).fingerprint
    assert not any("classes" in note for note in data.notes)


def test_a_label_that_the_map_has_not_is_refused_with_its_row(table):
    error = refusal(table, label_map={"yes": "a", "noo": "b"})
    assert error.key == "data.label_map"
    assert "'no'" in str(error)
    assert "row 1 " in str(error)
    assert "did you mean 'noo'" in str(error)


@pytest.mark.parametrize("label_map", [None, {"no": "no", "yes": "yes", "may": "may"}])
def test_a_label_that_only_the_test_file_has_is_refused_with_its_row(label_map, table, tmp_path):
    lines = people(20)
    lines[6] = lines[6].replace("yes", "may")
    test = write(tmp_path / "test.csv", lines)
    error = refusal(table, test_path=test, label_map=label_map)
    assert error.key == "data.label"
    assert "'may'" in str(error)
    assert "row 6 of test.csv" in str(error)


def test_a_missing_label_is_refused_with_its_row(table):
    lines = people()
    lines[9] = lines[9].replace("no", "")
    assert "row 9 of people.csv has no label" in str(refusal(table, lines))


def test_a_text_that_means_missing_can_be_a_class_by_the_map(table):
    lines = [line.replace("no", "None") for line in people()]
    assert table(lines, label_map={"None": "none", "yes": "some"}).classes == ("none", "some")
    assert "no label" in str(refusal(table, lines))


def test_slice_columns_are_texts_with_gaps_named_and_numbers_stay_numbers(table):
    data = table(slices=["job", "age", "who"])
    job, age = data.train.columns["job"], data.train.columns["age"]
    rows = data.train.example
    assert job.dtype.kind == "U"
    assert np.array_equal(job == "missing", rows % 4 == 0)
    assert age.dtype == np.float64
    assert np.array_equal(np.isnan(age), rows == 7)
    assert np.array_equal(age[rows != 7], 20 + rows[rows != 7])
    assert any("job, age, who" in note and "slices" in note for note in data.notes)


def test_time_is_a_date_of_its_own(table):
    data = table(time="day")
    assert data.train.columns["day"].dtype == np.dtype("datetime64[us]")
    first = np.datetime64("2020-01-01")
    days = (data.train.columns["day"] - first) / np.timedelta64(1, "D")
    assert np.array_equal(days, data.train.example % 28)


def test_a_missing_date_is_no_date_and_zones_are_utc(table):
    lines = people()
    lines[3] = lines[3].replace("2020-01-03", "")
    lines[4] = lines[4].replace("2020-01-04", "2020-01-04T01:30:00+02:00")
    data = table(lines, time="day")
    at = {int(r): d for s in splits(data) for r, d in zip(s.example, s.columns["day"], strict=True)}
    assert np.isnat(at[2])
    assert at[3] == np.datetime64("2020-01-03T23:30:00")


def test_a_date_in_another_form_needs_it_declared(table):
    lines = [line.replace("2020-01-", "01/") for line in people()]
    error = refusal(table, lines, time="day")
    assert error.key == "data.time"
    assert "'01/01'" in str(error)
    assert "row 1 " in str(error)
    data = table(
        [line.replace("01/", "2020/01/") for line in lines], time="day", time_format="%Y/%m/%d"
    )
    assert data.fingerprint == table(time="day").fingerprint


def test_each_record_has_its_user(table, tmp_path):
    data = table(user="who", test_path=write(tmp_path / "test.csv", people(80)))
    assert data.users == tuple(f"u{i:02d}" for i in range(20))
    for split in splits(data):
        row = np.where(split.example < 60, split.example, split.example - 60)
        assert np.array_equal(split.user, row // 4)
        assert split.user.dtype == np.int64


def test_a_user_whose_records_were_thinned_away_is_still_a_user(table):
    lines = ["x,who,label", *(f"{i},{'ab'[i % 2]}{i},{i % 2}" for i in range(60))]
    data = table(lines, numeric=["x"], categorical=None, user="who", **{"class": "1", "keep": 0.1})
    assert len(data.users) == 60
    assert len(data.train) < 30


def test_data_without_a_user_column_know_of_no_users(table):
    data = table()
    assert data.users == ()
    assert all(split.user is None for split in splits(data))


@pytest.mark.parametrize(
    "owner", ["", "NA", '"u1;u2"', "\"['u1', 'u2']\"", '"u1,u2"', "u1|u2", '"[u1]"', "{u1}"]
)
def test_a_record_has_exactly_one_user(owner, table):
    lines = people()
    lines[11] = lines[11].replace("u02", owner)
    error = refusal(table, lines, user="who")
    assert error.key == "data.user"
    assert "row 11 of people.csv" in str(error)
    assert "exactly one" in str(error)


@pytest.mark.parametrize("owners", [["a", "b"], ["a"], []])
@pytest.mark.parametrize("key", ["user", "categorical", "slices"])
def test_a_list_in_a_cell_is_refused_with_its_row(owners, key, table, tmp_path):
    frame = pd.DataFrame({"x": range(40), "who": [["z"]] * 40, "label": [0, 1] * 20})
    frame["who"] = pd.Series([None] * 4 + [owners] * 36)
    frame.to_parquet(tmp_path / "a.parquet")
    columns = {"numeric": ["x"], "categorical": None}
    columns |= {key: "who" if key == "user" else ["who"]}
    error = refusal(table, path=str(tmp_path / "a.parquet"), **columns)
    assert error.key == f"data.{key}"
    assert "row 5 of a.parquet holds a list" in str(error)
