from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted_cells import baseline, cell, set_value, slices, sweep
from planted_findings import planted
from planted_run_files import ODD, table_of

from analysis.findings.report import write_findings


def _written(table, out, left_out=()):
    report = write_findings(table, None, out, left_out)
    return (out / "findings.md").read_text(encoding="utf-8"), report


@pytest.mark.parametrize(
    "cells",
    [
        [cell()],
        [baseline()],
        [cell(), baseline()],
        [cell(mechanism="clip_only"), baseline()],
    ],
)
def test_half_a_sweep_claims_nothing_and_says_why(tmp_path, cells):
    text, report = _written(table_of(tmp_path / "runs", *cells), tmp_path)
    assert "No finding" in text
    assert "Nothing is claimed" in report.sentences[0]


def test_one_seed_is_told_how_many_are_needed(tmp_path):
    text, _ = _written(table_of(tmp_path / "runs", *sweep(["flat"], [1.0], 1)), tmp_path)
    assert "there is 1 seed" in text
    assert "needs 2 at the least" in text


def test_odd_names_absent_classes_and_missing_values_are_written(tmp_path):
    odd = [*ODD, "<script>", "[a](b)"]
    cells = sweep(["flat", "per_layer"], [0.1, 1.0], 3, places=slices(odd, []))
    for content in cells:
        set_value(content, {"slice": "NA", "metric": "recall"}, None, 0)
    for content in cells[:2]:
        set_value(content, {"slice": "all", "metric": "kept"}, None, 0)
    text, _ = _written(table_of(tmp_path / "runs", *cells), tmp_path, [("x", "status <b>")])
    assert "“NA” (n = 0)" in text
    assert "<script>" not in text
    assert "status \\<b>" in text
    rows = pd.read_csv(tmp_path / "findings.csv", keep_default_na=False)
    assert {"<script>", "猫和狗", "a/b_c"} <= set(rows["slice"])


def test_the_advice_is_by_validation_and_says_what_choosing_costs(tmp_path):
    table, _ = planted(np.random.default_rng(0), 3)
    rows = table["split"].eq("validation") & table["rule"].eq("per_layer")
    table.loc[rows & table["metric"].isin(["macro_accuracy", "tail_worst"]), "value"] = 0.99
    table.loc[table["split"].eq("test") & table["rule"].eq("per_layer"), "value"] = 0.01
    text, _ = _written(table, tmp_path)
    assert "validation favours per_layer at C = 0.1" in text
    assert "mean accuracy over classes 0.01" in text
    assert "looking at 9 private runs" in text
    assert "is what `python -m dpsgd.ledger compose runs` says, and" in text


def test_every_epsilon_stands_with_accountant_delta_unit_and_lr_scale(tmp_path):
    text, report = _written(planted(np.random.default_rng(0), 3)[0], tmp_path)
    for told in (text, report.sentences[-1]):
        assert "ε = 3 (PLD), δ = 1e-4, unit record" in told
        assert "lr_scale=by_norm" in told
        assert "diagnostic, not private" in told


def test_one_run_without_values_does_not_silence_the_others(tmp_path):
    cells = sweep(["flat", "adaptive"], [0.5, 1.0], 3)
    set_value(cells[0], {}, None, 0)
    _written(table_of(tmp_path / "runs", *cells), tmp_path)
    assert len(pd.read_csv(tmp_path / "findings.csv")) > 20
