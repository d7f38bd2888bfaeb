# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
"""The table is what a plain reading of every file gives: json, one row after another."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from planted_cells import baseline, cell, set_value, slices, sweep, write

from analysis import schema
from analysis.cells import one_row_each, read_cells

LARGE = 10**30


def _plain(runs):
    parts = []
    for file in sorted(runs.glob(f"*/{schema.CELL_FILE}")):
        content = json.loads(file.read_text(encoding="utf-8"))
        metrics = pd.DataFrame({name: content["metrics"][name] for name in schema.CELL_METRICS})
        scalars = {k: v for k, v in content.items() if not isinstance(v, list | dict)}
        parts.append(metrics.assign(**{name: [v] * len(metrics) for name, v in scalars.items()}))
    return pd.concat(parts, ignore_index=True)


def _odd():
    whole = cell(seed=1, clip_norm=2, **{"config.x": LARGE, "config.share": 0.1 + 0.2})
    none = cell(seed=2, places=slices(["猫", "NA", "$x$"]), **{"config.x": None})
    set_value(none, {"metric": "recall"}, None, 0)
    other = cell(seed=3, lr=1, **{"config.x": 1e30, "config.only": True})
    other["metrics"]["value"][0] = math.nan
    other["metrics"]["lo"][1] = 1
    return [whole, none, other, *sweep(["flat", "adaptive"], [0.1], 3), baseline(seed=9)]


def test_the_table_is_that_of_a_plain_reading(tmp_path):
    read = read_cells(write(tmp_path, *_odd()))
    assert read.left_out == ()
    plain = _plain(tmp_path)
    assert len(read.table) == len(plain)
    for name in plain:
        found, expected = read.table[name].to_list(), plain[name].to_list()
        for one, two in zip(found, expected, strict=True):
            same = pd.isna(one) if pd.isna(two) else str(one) == str(two) or one == float(two)
            assert same, (name, one, two)


@pytest.mark.parametrize("number", [LARGE, -LARGE, 2**63, 2**64])
def test_a_whole_number_too_large_for_a_column_is_not_rounded_into_it(tmp_path, number):
    write(tmp_path, cell(seed=1))
    content = cell(seed=2)
    content["metrics"]["value"][3] = number
    write(tmp_path, content)
    (left,) = read_cells(tmp_path).left_out
    assert left.reason == f"metrics.value holds {number}"
    write(tmp_path, cell(seed=2, **{"config.x": number}))
    assert set(one_row_each(read_cells(tmp_path).table)["config.x"].dropna()) == {str(number)}


def test_cells_with_the_same_rows_are_read_as_if_alone(tmp_path):
    cells = _odd()
    together = read_cells(write(tmp_path / "all", *cells)).table
    for place, content in enumerate(cells):
        alone = read_cells(write(tmp_path / str(place), content)).table
        own = together.loc[together["run_key"] == content["run_key"]].reset_index(drop=True)
        names = list(schema.CELL_METRICS)
        assert_frame_equal(own[names], alone[names])
