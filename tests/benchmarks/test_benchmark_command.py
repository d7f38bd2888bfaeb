import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.table import Result, lines, short_number

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    file = tmp_path_factory.mktemp("benchmark") / "step.json"
    options = ["--models", "mlp", "--repeats", "2", "--no-memory", "--out", str(file)]
    command = [sys.executable, "-m", "benchmarks.step", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout, json.loads(file.read_text(encoding="utf-8"))


def test_every_method_has_a_line_and_a_row(run):
    text, document = run
    methods = [row["method"] for row in document["rows"]]
    assert methods == [line[:16].strip() for line in text.splitlines()[2:]]
    assert methods[0] == "sgd"
    assert len(methods) == len(set(methods)) == 10


def test_every_row_has_a_ratio_or_a_reason(run):
    for row in run[1]["rows"]:
        assert ("ratio" in row) != ("reason" in row)
        if "plain_ms" in row:
            assert row["ratio"] == pytest.approx(row["step_ms"] / row["plain_ms"], rel=1e-2)
        if row["method"].startswith(("ours", "torch")):
            assert 0 < row["noise_ms"] < row["step_ms"]


def test_the_file_says_where_and_how_it_was_measured(run):
    document = run[1]
    assert document["threads"] == 1
    assert document["repeats"] == {"mlp": 2}
    assert document["command"].startswith("python -m benchmarks.step --models mlp")
    assert {"date", "torch", "cpu"} <= set(document)


def test_the_table_fits_a_terminal():
    models = ["mlp", "cnn", "conv-gn", "transformer"]
    big = {"ratio": 1234.5, "noise_ratio": 99.96, "memory_ratio": 9.996}
    results = [Result(m, "opacus functorch", **big) for m in models]
    results += [Result(m, "opacus ghost", reason="too long to be shown here") for m in models]
    table = lines(results, models)
    assert max(map(len, table)) <= 80
    assert table[2].split() == ["opacus", "functorch", *["1234", "100", "10.0"] * 4]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0.004, "0.00"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (1e9, "++")],
)
def test_numbers_take_four_characters(value, text):
    assert short_number(value) == text
    assert len(text) <= 4
