# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import json
import math
import shutil

import pandas as pd
import pytest
from planted_cells import baseline, cell, set_value, slices, sweep, write

from analysis import schema
from analysis.cells import one_row_each, read_cells

ODD_NAMES = ["NA", "nan", "", "null", "cat (small)", "$x$ and $5", "a/b_c", "猫", "1", "True"]


def test_every_finished_cell_is_read_with_its_scalars_on_every_row(tmp_path):
    cells = sweep(["flat", "adaptive"], [0.5, 1.0], 2)
    read = read_cells(write(tmp_path, *cells))
    assert read.left_out == ()
    assert len(read.table) == sum(len(c["metrics"]["value"]) for c in cells)
    assert list(read.table.columns[: len(schema.CELL_METRICS)]) == list(schema.CELL_METRICS)
    by_key = one_row_each(read.table).set_index("run_key")
    for content in cells:
        row = by_key.loc[content["run_key"]]
        assert row["label"] == content["label"]
        assert row["batch"] == content["batch"]
        assert row["private"] == content["private"]
        assert row["config.clip._target_"] == content["config.clip._target_"]


def test_metric_columns_have_the_dtypes_of_the_schema(tmp_path):
    table = read_cells(write(tmp_path, cell())).table
    found = {name: str(table[name].dtype).lower() for name in schema.CELL_METRICS}
    assert found == dict(schema.CELL_METRICS)


def test_what_is_not_a_cell_is_passed_over(tmp_path):
    write(tmp_path, cell())
    for name in ("sweeps", "mlruns", ".hidden", "atlas"):
        (tmp_path / name).mkdir()
    shutil.copy(tmp_path / cell()["run_key"] / schema.CELL_FILE, tmp_path / ".hidden")
    (tmp_path / "sweeps" / "small.json").write_text("[]")
    (tmp_path / "mlflow.db").write_bytes(b"\x00")
    read = read_cells(tmp_path)
    assert len(one_row_each(read.table)) == 1
    assert read.left_out == ()


def _without(content, *names):
    return {name: value for name, value in content.items() if name not in names}


def _with_metrics(**columns):
    content = cell()
    return content | {"metrics": content["metrics"] | columns}


VALUES = len(cell()["metrics"]["value"])
BROKEN = {
    "cut short": (json.dumps(cell())[:-30], "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "not UTF-8": (b"\xff\xfe\x00", "not valid JSON"),
    "a list": ("[1, 2]", "not a JSON object"),
    "deep": ("[" * 100_000, "not valid JSON"),
    "running": (json.dumps(cell(status="RUNNING")), "status RUNNING"),
    "killed": (json.dumps(cell(status="KILLED")), "status KILLED"),
    "no status": (json.dumps(_without(cell(), "status")), "no status"),
    "newer": (json.dumps(cell(schema=99)), "schema 99"),
    "no rule": (json.dumps(_without(cell(), "rule", "seed")), "lacks rule, seed"),
    "no metrics": (json.dumps(_without(cell(), "metrics")), "no metrics"),
    "empty metrics": (
        json.dumps(cell(metrics={name: [] for name in schema.CELL_METRICS})),
        "metrics are empty",
    ),
    "uneven": (json.dumps(_with_metrics(value=[0.5])), "different length"),
    "no column": (json.dumps(_with_metrics(lo=None)), "metrics lack lo"),
    "text for a value": (json.dumps(_with_metrics(value=["high"] * VALUES)), "holds 'high'"),
    "no name": (json.dumps(_with_metrics(slice=[None] * VALUES)), "metrics.slice holds None"),
    "negative n": (json.dumps(_with_metrics(n=[-1] * VALUES)), "metrics.n holds -1"),
    "twice": (json.dumps(_with_metrics(metric=["recall"] * VALUES)), "a row twice"),
    "epsilon in words": (json.dumps(cell(epsilon="three")), "epsilon is 'three'"),
    "a huge seed": (json.dumps(cell() | {"seed": 10**400}), "seed is 1"),
    "private in words": (json.dumps(cell(private="yes")), "private is 'yes'"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_cell_is_left_out_with_its_reason_and_the_others_are_read(tmp_path, kind):
    content, reason = BROKEN[kind]
    write(tmp_path, cell(seed=1))
    (tmp_path / "bad").mkdir()
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "bad" / schema.CELL_FILE).write_bytes(raw)
    read = read_cells(tmp_path)
    assert len(one_row_each(read.table)) == 1
    assert [entry.folder for entry in read.left_out] == ["bad"]
    assert reason in read.left_out[0].reason


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ('{"status": "FAILED", "traceback": "secret 123"}', "status FAILED, no cell.json"),
        ("{", "status unknown, no cell.json"),
        (None, "status unknown, no cell.json"),
    ],
)
def test_a_run_without_a_cell_says_how_far_it_got(tmp_path, status, reason):
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / schema.CONFIG_FILE).write_text("epsilon: 3.0")
    if status is not None:
        (tmp_path / "k" / schema.STATUS_FILE).write_text(status)
    read = read_cells(tmp_path)
    assert read.table.empty
    assert [entry.reason for entry in read.left_out] == [reason]


def test_a_copied_folder_counts_once(tmp_path):
    write(tmp_path, cell())
    shutil.copytree(tmp_path / cell()["run_key"], tmp_path / "zz-copy")
    read = read_cells(tmp_path)
    assert len(one_row_each(read.table)) == 1
    assert [(e.folder, "a copy" in e.reason) for e in read.left_out] == [("zz-copy", True)]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        read_cells(tmp_path / "nowhere")


def test_odd_names_come_back_from_parquet_as_they_were(tmp_path):
    write(tmp_path, cell(places=slices(ODD_NAMES), data="NA", **{"config.note": "NA"}))
    table = read_cells(tmp_path).table
    table.to_parquet(tmp_path / "cells.parquet", index=False)
    back = pd.read_parquet(tmp_path / "cells.parquet")
    names = back.loc[back["slice_kind"] == "label", "slice"].drop_duplicates()
    assert list(names) == ODD_NAMES
    assert set(back["data"]) == set(back["config.note"]) == {"NA"}
    assert not back["slice"].isna().any()


def test_an_absent_slice_has_no_value_rather_than_zero(tmp_path):
    content = cell()
    set_value(content, {"slice": "5", "metric": "recall"}, None, 0)
    content["metrics"]["value"][0] = math.nan
    table = read_cells(write(tmp_path, content)).table
    rows = table[(table["slice"] == "5") & (table["metric"] == "recall")]
    assert rows["value"].isna().all()
    assert (rows["n"] == 0).all()
    assert math.isnan(table["value"].iloc[0])


def test_infinite_epsilon_is_a_number_and_an_absent_one_is_missing(tmp_path):
    write(tmp_path, baseline(), cell())
    read_cells(tmp_path).table.to_parquet(tmp_path / "cells.parquet", index=False)
    cells = one_row_each(pd.read_parquet(tmp_path / "cells.parquet")).set_index("rule")
    assert cells.loc["none", "epsilon"] == math.inf
    assert math.isnan(cells.loc["none", "epsilon_target"])
    assert cells.loc["flat", "epsilon"] == 2.9991


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, "inf"], [1.0, math.inf]),
        ([1, 2], [1, 2]),
        ([1, "auto"], ["1", "auto"]),
        ([True, False], [True, False]),
        ([True, 3], ["True", "3"]),
        ([10**30, 1], [str(10**30), "1"]),
        (["NA", "b"], ["NA", "b"]),
    ],
)
def test_a_setting_of_mixed_type_keeps_every_value(tmp_path, values, expected):
    write(tmp_path, *(cell(seed=s, **{"config.x": v}) for s, v in enumerate(values)))
    table = read_cells(tmp_path).table
    table.to_parquet(tmp_path / "cells.parquet", index=False)
    assert list(one_row_each(table).sort_values("seed")["config.x"]) == expected


def test_a_setting_that_one_cell_lacks_is_missing_there(tmp_path):
    write(tmp_path, cell(seed=0), cell(seed=1, **{"config.new": 3, "extra": [1], "n": 5}))
    cells = one_row_each(read_cells(tmp_path).table).sort_values("seed")
    assert list(cells["config.new"].isna()) == [True, False]
    assert "extra" not in cells
    assert cells["cell.n"].iloc[1] == 5
