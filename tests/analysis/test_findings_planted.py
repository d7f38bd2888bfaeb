from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted_findings import planted

from analysis.findings.findings import corrected, findings, told

NONE = pd.DataFrame({n: [] for n in ["run_key", "example", "label", "predicted", "confidence"]})


def test_a_label_that_one_rule_loses_is_found_and_no_other():
    table, predictions = planted(np.random.default_rng(0), 5, lost=0.8, spread=0.1)
    tests = findings(table, predictions)
    erased = [test for test in tests if test.kind == "erasure" and test.claimed and test.wanted]
    assert [(test.subject.split()[0], test.slice.name) for test in erased] == [("flat", "3")]
    rivals = [test for test in tests if test.kind == "rule" and test.slice.name == "3"]
    assert [test.claimed for test in rivals] == [True]
    assert "per_layer at C = 0.1 recognises label “3” better than flat" in rivals[0].sentence
    assert erased[0] in told(tests)


def test_the_numbers_of_a_sentence_are_those_of_the_table():
    table, predictions = planted(np.random.default_rng(0), 4, lost=0.7, spread=0.2)
    (test,) = [
        test
        for test in findings(table, predictions)
        if test.kind == "erasure" and test.slice.name == "3" and "flat" in test.subject
    ]
    rows = table.loc[(table["split"] == "test") & (table["metric"] == "recall")]
    own = rows.loc[rows["slice"] == "3"].set_index("run_key")["value"]
    rest = rows.loc[rows["slice"].isin(["0", "1", "2"])].groupby("run_key")["value"].mean()
    private, baseline = list(test.runs[:4]), list(test.runs[4:])
    fall = own[baseline].mean() - own[private].mean()
    others = rest[baseline].mean() - rest[private].mean()
    assert test.value == pytest.approx(fall)
    assert test.effect.mean == pytest.approx(fall - others)
    assert f"recall {own[private].mean():.2f} on label “3”" in test.sentence
    assert f"against {own[baseline].mean():.2f} without privacy" in test.sentence


def test_predictions_and_cells_agree_on_every_difference():
    table, predictions = planted(np.random.default_rng(3), 3, lost=0.3)
    key = ("kind", "subject", "against", "slice")
    by_example = {tuple(getattr(t, k) for k in key): t for t in findings(table, predictions)}
    for test in findings(table, NONE):
        other = by_example[tuple(getattr(test, k) for k in key)]
        assert test.effect.mean == pytest.approx(other.effect.mean)
        assert not test.effect.of_examples


def test_more_tests_make_every_claim_harder():
    table, predictions = planted(np.random.default_rng(0), 5, lost=0.6)
    tests = findings(table, predictions)
    best = min(tests, key=lambda test: test.q)
    assert best.q > best.effect.p
    assert corrected([best])[0].q == pytest.approx(best.effect.p)
