from __future__ import annotations

import math
import re

import pytest
from planted_files import SETTINGS, part, people, refusal, write


@pytest.mark.parametrize("key", ["label", "numeric", "categorical", "slices", "user", "time"])
def test_a_column_that_is_not_there_names_its_key_and_those_that_are(key, table, tmp_path):
    value = "jobb" if key in ("label", "user", "time") else ["jobb"]
    error = refusal(table, **{**SETTINGS, "categorical": None, key: value})
    first = str(error).splitlines()[0]
    assert first.startswith(f"data.{key}=jobb")
    assert "did you mean 'job'" in first
    assert "age, job, income, who, day, label" in first
    short = write(tmp_path / "short.csv", ["a,b", "1,2"])
    assert refusal(table, test_path=short).key == "data.label"


BAD = {
    "a word as a number": ({"numeric": ["job"], "categorical": None, "na_values": ["?"]},
                           "data.numeric", "row 2 .*'clerk'"),
    "the label as a number": ({"numeric": ["label"]}, "data.numeric", "label"),
    "the label as a word": ({"categorical": ["label"]}, "data.categorical", "label"),
    "a column in two parts": ({"categorical": ["age"]}, "data.categorical", "in numeric already"),
    "a column twice": ({"numeric": ["age", "age"]}, "data.numeric", "twice"),
    "no feature": ({"numeric": None, "categorical": None}, "data.numeric", "is a feature"),
    "log of no number": ({"log": ["agee"]}, "data.log", "did you mean 'age'"),
    "clip of nothing": ({"clip": 0.0}, "data.clip", "above 0"),
    "clip without bound": ({"clip": math.inf}, "data.clip", "finite"),
    "no spread": ({"numeric": {"age": {"mean": 1, "std": 0}}}, "data.numeric.age.std", "above 0"),
    "half a scaling": ({"numeric": {"age": {"mean": 1}}}, "data.numeric.age.std", "required"),
    "another constant": ({"numeric": {"age": {"mean": 1, "sd": 1}}}, "data.numeric.age.sd", "std"),
    "a word twice": ({"categorical": {"job": ["a", "a"]}}, "data.categorical.job", "twice"),
    "a text with two classes": ({"label_map": [["no", "a"], ["no", "b"]]}, "data.label_map", "no"),
    "a map to one class": ({"label_map": {"no": "a", "yes": "a"}}, "data.label_map", "two classes"),
    "shares of everything": ({"train": 0.9, "validation": 0.1}, "data.validation", "below 1"),
    "shares above everything": ({"train": 0.9, "validation": 0.2, "test_path": "x"},
                                "data.validation", "above 1"),
    "no train": ({"train": 0.0}, "data.train", "share"),
    "a class not mapped": ({"label_map": {"no": "a", "yes": "b"}, "class": "no", "keep": 0.5},
                           "data.class", "a, b"),
    "a class that is not there": ({"class": "yess", "keep": 0.5}, "data.class", "no, yes"),
    "a long separator": ({"separator": ", "}, "data.separator", "one character"),
    "names of columns twice": ({"names": ["a", "a"]}, "data.names", "twice"),
    "a tail of nothing": ({"class": "yes", "keep": 0.0}, "data.keep", "above 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_settings_that_cannot_be_are_refused_by_key(case, table):
    changes, key, words = BAD[case]
    error = refusal(table, **changes)
    assert error.key == key
    assert re.search(words, str(error)), str(error)


@pytest.mark.parametrize("cell", ["inf", "-inf", "1e999", "12a"])
def test_a_number_must_be_finite(cell, table):
    lines = people()
    lines[5] = lines[5].replace("24,", f"{cell},", 1)
    assert f"row 5 of people.csv has '{cell}'" in str(refusal(table, lines))


def test_a_logarithm_needs_numbers_that_have_one(table):
    lines = people()
    lines[5] = lines[5].replace("24,", "-1,", 1)
    error = refusal(table, lines, log=["age"])
    assert error.key == "data.log"
    assert "row 5" in str(error)


def test_the_settings_are_built_without_any_file():
    assert part("data", "table", **SETTINGS).name == "table"
