# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import numpy as np
import pytest
from planted_cells import baseline, cell, key_of, planted_recall, slices, sweep
from planted_run_files import NOTHING, caption, marks, predictions, table_of, texts, titled

from analysis.churn import churn
from analysis.figures.stability import figure, wanted
from analysis.slices import slice_columns

KEYS = [key_of("flat", 1.0, seed) for seed in range(3)]


def _columns(tmp_path):
    return slice_columns(table_of(tmp_path, cell(places=slices(["a", "b"], []))))


def test_churn_is_the_share_of_examples_on_which_two_runs_disagree(tmp_path):
    runs = {KEYS[0]: [0, 0, 1, 1], KEYS[1]: [0, 1, 1, 1], KEYS[2]: [0, 0, 1, 1]}
    found = predictions(runs, [0, 0, 1, 1], label=["a", "a", "b", "b"])
    share = churn(found, KEYS, _columns(tmp_path))
    assert share["churn"].tolist() == pytest.approx([1 / 6, 1 / 3, 0.0])  # all, a, b
    assert share["n"].tolist() == [4, 2, 2]
    assert share["pairs"].tolist() == [3, 3, 3]
    assert np.all(share["lo"] <= share["churn"])
    assert np.all(share["churn"] <= share["hi"])


def test_runs_that_agree_have_no_churn_and_one_run_has_none_to_tell(tmp_path):
    columns = _columns(tmp_path)
    same = predictions({key: [0, 1] for key in KEYS}, [0, 1], label=["a", "b"])
    assert churn(same, KEYS, columns)["churn"].tolist() == [0.0, 0.0, 0.0]
    assert churn(same, KEYS[:1], columns)["churn"].isna().all()


def test_one_example_and_an_absent_class_have_no_interval(tmp_path):
    runs = {KEYS[0]: [0, 1], KEYS[1]: [1, 1]}
    found = churn(predictions(runs, [0, 0], label=["a", "a"]), KEYS, _columns(tmp_path))
    assert found["churn"].tolist()[:2] == [0.5, 0.5]
    assert np.isnan(found["churn"][2])
    alone = churn(predictions(runs, [0, 0], label=["a", "b"]), KEYS, _columns(tmp_path))
    assert np.isnan(alone["lo"][1])


def test_the_spread_is_each_seed_minus_their_mean(tmp_path):
    table = table_of(tmp_path, *sweep(["flat"], [1.0], 3))
    drawn = figure(table, NOTHING["predictions"])
    axes = titled(drawn, "Recall of each seed")
    points = sorted(y for _, y in marks(axes, "seed of flat, C = 1"))
    recall = [planted_recall("8", "flat", 1.0, seed) for seed in range(3)]
    assert points[0] == pytest.approx(min(recall) - np.mean(recall))
    assert points[-1] == pytest.approx(0.01)


def test_the_marks_of_churn_carry_its_numbers_and_n_stands_above(tmp_path):
    table = table_of(tmp_path, *sweep(["flat"], [1.0], 2, places=slices(["a", "b"], [])))
    runs = {KEYS[0]: [0, 0, 1, 1], KEYS[1]: [0, 1, 1, 1]}
    drawn = figure(table, predictions(runs, [0, 0, 1, 1], label=["a", "a", "b", "b"]))
    axes = titled(drawn, "Churn")
    assert [y for _, y in marks(axes, "flat, C = 1")] == pytest.approx([0.25, 0.5, 0.0])
    assert [text.get_text() for text in axes.texts if text.get_gid() == "n"] == ["4", "2", "2"]


def test_with_one_seed_both_panels_say_why_they_are_empty(tmp_path):
    drawn = figure(table_of(tmp_path, cell(), baseline()), NOTHING["predictions"])
    said = texts(drawn, "why empty")
    assert any("no rule has two seeds" in text for text in said)
    assert any("no two seeds" in text for text in said)
    assert "1 seed, so no interval" in caption(drawn)


def test_predictions_are_wanted_of_the_best_thresholds_and_the_baseline_only(tmp_path):
    keys = wanted(table_of(tmp_path, *sweep(["flat"], [0.5, 1.0], 2)))
    assert sorted(keys) == sorted(
        [key_of("flat", 1.0, s) for s in (0, 1)] + [baseline(s)["run_key"] for s in (0, 1)]
    )
