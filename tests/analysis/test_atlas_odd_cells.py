# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
"""Everything at once that a half-finished sweep of odd data can hold, through the command."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from planted_cells import cell, set_value, slices, sweep, write

from analysis import schema
from analysis.atlas import main
from analysis.cells import read_cells
from analysis.page.payload import payload

NAMES = ["NA", "cat (small)", "$x$ and $5", "a/b", "猫和狗", "one example", "absent"]


def _odd():
    places = slices(NAMES)
    cells = sweep(["flat", "adaptive"], [0.5, 1.0], 2, places=places)
    only_seed = cell("automatic", 1.0, 0, places=places)
    for content in [*cells, only_seed]:
        set_value(content, {"slice": "one example", "split": "test"}, 1.0, 1)
        set_value(content, {"slice": "absent"}, None, 0)
    set_value(cells[0], {}, None, 0)
    failed = cell("psac", 1.0, 0, places=places, status="FAILED")
    return [*cells, only_seed, failed]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of an atlas of all of it, and what the command said."""
    runs = write(tmp_path_factory.mktemp("odd"), *_odd())
    (runs / "begun").mkdir()
    (runs / "begun" / schema.STATUS_FILE).write_text('{"status": "KILLED"}')
    assert main([str(runs), "--figures", "map"]) == 0
    return runs / "atlas"


def _page(written):
    read = read_cells(written.parent)
    left_out = [(entry.folder, entry.reason) for entry in read.left_out]
    return payload(read.table, written.parent, [], left_out)


def _findings(written):
    return (written / "findings.md").read_text(encoding="utf-8").replace("\\", "")


def test_every_slice_is_in_the_table_on_the_page_and_in_the_findings(written):
    table = pd.read_parquet(written / "cells.parquet")
    assert set(NAMES) <= set(table["slice"])
    (family,) = _page(written)["families"]
    assert set(NAMES) <= {entry["name"] for entry in family["slices"]}
    tested = set(pd.read_csv(written / "findings.csv", keep_default_na=False)["slice"])
    assert {"NA", "cat (small)", "$x$ and $5", "a/b", "猫和狗"} <= tested


def test_too_small_and_absent_slices_are_left_out_with_their_reason(written):
    text = _findings(written)
    (reason,) = [line for line in text.splitlines() if "fewer than 10 test examples" in line]
    assert "“one example” (n = 1)" in reason
    assert "“absent” (n = 0)" in reason


def test_failed_and_killed_cells_are_named_in_findings_and_page(written):
    text = _findings(written)
    for words in ("psac-1_0-0", "status FAILED", "begun", "status KILLED"):
        assert words in text
        assert words in json.dumps(_page(written), ensure_ascii=False)


def test_a_rule_with_one_seed_is_drawn_and_never_tested(written):
    rows = pd.read_csv(written / "findings.csv", keep_default_na=False)
    own = rows.loc[rows["subject"].str.startswith("automatic"), "p"]
    assert set(own) <= {""}
    named = pd.read_csv(written / "figures" / "map.csv")
    assert named.set_index("rule").loc["automatic", "seeds"] == 1


def test_no_file_says_nan_where_there_is_no_value(written):
    assert not re.search(r"\bnan\b", _findings(written))
    assert "NaN" not in json.dumps(_page(written))
