# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import numpy as np
import pytest
from planted_cells import baseline, cell, key_of, set_value, sweep
from planted_run_files import NOTHING, caption, marks, predictions, table_of, texts, titled

from analysis.figures.calibration import figure
from analysis.reliability import reliability

KEY = key_of("flat", 1.0, 0)


def test_accuracy_and_confidence_are_those_of_the_bin():
    found = predictions({KEY: [0, 0, 0, 1] * 5}, [0] * 20, confidence=0.75)
    row = reliability(found).iloc[7]
    assert (row["confidence"], row["accuracy"], row["n"]) == (0.75, 0.75, 20)
    assert row["lo"] < 0.75 < row["hi"]


def test_a_confidence_of_one_is_in_the_last_bin_and_an_edge_in_the_lower_one():
    assert reliability(predictions({KEY: [0]}, [0], confidence=1.0))["n"].tolist()[-1] == 1
    assert reliability(predictions({KEY: [0]}, [0], confidence=0.7))["n"].tolist()[6] == 1


def test_repeating_the_same_examples_over_seeds_does_not_narrow_the_interval():
    once = predictions({"a": [0, 1] * 20}, [0] * 40)
    thrice = predictions(dict.fromkeys("abc", [0, 1] * 20), [0] * 40)
    assert reliability(once)["hi"][7] == reliability(thrice)["hi"][7]
    assert reliability(thrice)["examples"][7] == 40


def test_few_examples_have_no_interval_and_are_hollow(tmp_path):
    table = table_of(tmp_path, cell(), baseline())
    band = ["tail"] * 3 + ["head"] * 30
    found = predictions({KEY: [0] * 33}, [0] * 33, rarity=band)
    axes = titled(figure(table, found), "flat, C = 1")
    assert len(marks(axes, "tail, few")) == 1
    assert len(marks(axes, "head")) == 1
    (n,) = [text.get_text() for text in axes.texts if text.get_gid() == "n"]
    assert n == "head n = 30, tail n = 3"


def test_ece_stands_beside_that_of_a_calibrated_model(tmp_path):
    cells = sweep(["flat"], [1.0], 2)
    for content in cells:
        for metric, value in (("ece", 0.3), ("ece_calibrated", 0.1)):
            set_value(content, {"split": "test", "metric": metric, "slice": "tail"}, value, 40)
    axes = titled(figure(table_of(tmp_path, *cells), NOTHING["predictions"]), "ECE")
    tail = 2  # all, head, tail
    assert marks(axes, "flat, C = 1")[tail][1] == pytest.approx(0.3)
    bars = [patch for patch in axes.patches if patch.get_gid() == "calibrated flat, C = 1"]
    assert bars[tail].get_height() == pytest.approx(0.1)


def test_without_files_the_diagram_says_so_and_ece_is_drawn(tmp_path):
    drawn = figure(table_of(tmp_path, cell(), baseline()), NOTHING["predictions"])
    assert texts(drawn, "why empty") == ["no predictions"] * 2
    assert np.isfinite([y for _, y in marks(titled(drawn, "ECE"), "flat, C = 1")]).all()
    assert "diagnostic, not private" in caption(drawn)


def test_a_slice_too_small_for_an_ece_has_no_mark(tmp_path):
    content = cell()
    set_value(content, {"metric": "ece"}, None, 3)
    drawn = figure(table_of(tmp_path, content), NOTHING["predictions"])
    assert any("too few test examples" in text for text in texts(drawn, "why empty"))
