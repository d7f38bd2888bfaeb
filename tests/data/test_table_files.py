from __future__ import annotations

import gzip
import re

import numpy as np
import pandas as pd
import pytest
from planted_files import people, refusal, splits, write


def test_every_form_of_the_same_table_is_the_same_data(table, tmp_path):
    plain = table(slices=["job", "who"], user="who", time="day")
    lines = people()
    tight = [line.replace(", ", ",") for line in lines]
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress("\n".join(lines).encode("utf-8-sig")))
    bare = write(tmp_path / "bare.csv", lines[1:])
    semicolons = write(tmp_path / "semicolons.csv", [t.replace(",", ";") for t in tight])
    frame = pd.read_csv(write(tmp_path / "tight.csv", tight), na_values=["?"])
    frame["day"] = pd.to_datetime(frame["day"])
    frame.to_parquet(tmp_path / "people.parquet")
    forms = [
        {"path": str(packed)},
        {"path": bare, "names": lines[0].split(", ")},
        {"path": semicolons, "separator": ";"},
        {"path": write(tmp_path / "blank.csv", [*lines[:5], "", *lines[5:], ""])},
        {"path": str(tmp_path / "people.parquet")},
    ]
    for form in forms:
        other = table(slices=["job", "who"], user="who", time="day", **form)
        assert other.fingerprint == plain.fingerprint, form


def test_quotes_hold_separators_and_line_ends(table):
    lines = ["x,word,label", *(f'{i}, "a, {i % 2}\nb",{i % 2}' for i in range(40))]
    data = table(lines, numeric=["x"], categorical=None, slices=["word"])
    assert set(data.train.columns["word"]) == {"a, 0\nb", "a, 1\nb"}


def test_parquet_keeps_whole_numbers_with_gaps_whole(table, tmp_path):
    file = tmp_path / "a.parquet"
    codes = pd.array([None if i == 3 else i % 3 for i in range(60)], dtype="Int64")
    truth = [i % 2 == 0 for i in range(60)]
    pd.DataFrame(
        {"code": codes, "size": range(60), "truth": truth, "label": codes.fillna(0)}
    ).to_parquet(file)
    data = table(
        path=str(file), numeric=["size"], categorical=["code", "truth"], user="size",
        slices=["code", "size", "truth"],
    )  # fmt: skip
    assert data.classes == ("0", "1", "2")
    assert "7" in data.users
    assert data.train.columns["size"].dtype == np.int64
    assert data.train.columns["code"].dtype == np.float64
    assert set(data.train.columns["truth"]) == {"True", "False"}
    assert data.train.inputs.shape[1] == 2 + (3 + 2) + (2 + 2)


def test_a_number_that_stands_for_a_gap_is_one_in_parquet_too(table, tmp_path):
    lines = ["x,label", *(f"{-999 if i == 3 else i},{i % 2}" for i in range(60))]
    pd.read_csv(write(tmp_path / "a.csv", lines)).to_parquet(tmp_path / "a.parquet")
    for path in ("a.csv", "a.parquet"):
        data = table(path=str(tmp_path / path), numeric=["x"], categorical=None, na_values=[-999])
        gaps = np.concatenate([s.example[s.inputs[:, 1].numpy() == 1] for s in splits(data)])
        assert gaps.tolist() == [3]


BROKEN = {
    "too many fields": (["a,label", *["1,x", "2,y"] * 5, "1,2,x"], "line 12|Expected 2 fields"),
    "too few fields": (["a,b,label", *["1,2,x", "1,2,y"] * 5, "1,2"], "line 12 has 2 fields"),
    "a long first record": (["a,label", "1,2,x", "1,x", "1,y"], "line 2 has 3 fields"),
    "a short first record": (["a,b,label", "1,2", "1,2,x"], "line 2 has 2 fields"),
    "a header alone": (["a,label"], "no record"),
    "no text at all": ([], "empty"),
    "an open quote": (["a,label", '1,"x', "2,y"], "cannot be read"),
    "a name twice": (["a,a,label", *["1,2,x", "1,2,y"] * 5], "2 different columns"),
    "one class": (["a,label", *["1,x"] * 9], "every record has the label 'x'"),
    "few records": (["a,label", "1,x", "2,y"], "no record is left"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused(case, table, tmp_path):
    lines, words = BROKEN[case]
    path = tmp_path / "broken.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    error = refusal(table, path=str(path), numeric=["a"], categorical=None)
    assert re.search(words, str(error)), str(error)
    assert error.key.startswith("data.")


def test_columns_named_twice_with_equal_values_are_one(table):
    lines = ["a,a,label", *(f"{i},{i},{i % 2}" for i in range(40))]
    data = table(lines, numeric=["a"], categorical=None)
    assert data.train.inputs.shape[1] == 2
    assert any("2 times" in note for note in data.notes)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"PAR1 no", b"\x1f\x8b no"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_files_of_another_kind_name_the_path(content, name, table, tmp_path):
    (tmp_path / name).write_bytes(content)
    error = refusal(table, path=str(tmp_path / name))
    assert error.key in ("data.path", "data.label")


@pytest.mark.parametrize("key", ["path", "test_path"])
def test_a_file_that_is_not_there_names_its_key(key, table, tmp_path):
    for path in (str(tmp_path / "none.csv"), str(tmp_path)):
        assert str(refusal(table, **{key: path})).startswith(f"data.{key}={path}: no such file")


def test_the_keys_that_have_no_default_are_asked_for(table):
    assert str(refusal(table, path="???")).startswith("data.path=???: is required")
    assert "age, job" in str(refusal(table, label="???"))
