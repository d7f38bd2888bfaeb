from __future__ import annotations

import numpy as np
import pytest
from planted_cells import cell, set_value, sweep
from planted_findings import EVERY, planted
from planted_run_files import table_of

from analysis.findings.findings import findings
from analysis.findings.report import write_findings
from analysis.findings.statistics import over_seeds, pooled
from analysis.interval import range_of, t_interval_of
from analysis.lines import family
from analysis.measures import over_conditions, overall

TAIL = {"split": "test", "metric": "tail_band"}
MOST = {"rule": 1, "threshold": 1, "erasure": 2, "calibration": 2, "attribution": 2}


@pytest.fixture
def wide(tmp_path):
    cells = sweep(["flat"], [0.1, 1.0], 2)
    for content in cells:
        set_value(content, TAIL, 0.44 + 0.23 * int(content["seed"]), 18)
    return table_of(tmp_path / "runs", *cells)


def test_two_seeds_of_an_accuracy_say_no_more_than_0_to_1(wide, tmp_path):
    said = " ".join(write_findings(wide, None, tmp_path, []).sentences)
    assert "accuracy of the tail 0.56 [0.00, 1.00] (2 seeds" in said
    measure = overall(wide, "tail_band", "tail")
    assert measure is not None
    found = over_conditions(measure.values, family(wide).named)
    assert set(found["lo"]) == {0.0}
    assert set(found["hi"]) == {1.0}


def test_two_sums_of_two_accuracies_differ_by_no_more_than_2(tmp_path):
    cells = [cell("flat", norm, seed) for norm in (0.1, 1.0) for seed in (0, 1)]
    for content, score in zip(cells, (0.2, 0.9, 0.8, 0.2), strict=True):
        for metric in ("tail_band", "macro_accuracy"):
            set_value(content, {"split": "validation", "metric": metric}, score, 1000)
    said = " ".join(write_findings(table_of(tmp_path, *cells), None, tmp_path, []).sentences)
    assert "10 points [−200, 200] behind on validation" in said


@pytest.mark.parametrize("kept", [[], ["run_key", "example", "label", "predicted"]])
def test_no_interval_of_a_finding_leaves_what_it_can_be(kept):
    table, predictions = planted(
        np.random.default_rng(0), 2, lost=0.9, spread=3.0, per_label=12, cells=EVERY
    )
    tests = findings(table, predictions if kept else predictions.iloc[:0])
    seen = set()
    for test in tests:
        if test.effect.p == test.effect.p and test.kind in MOST:
            most = MOST[test.kind] if test.against not in ("clipping", "noise") else 1
            assert -most <= test.effect.lo <= test.effect.mean <= test.effect.hi <= most
            seen |= {test.kind} if max(-test.effect.lo, test.effect.hi) == most else set()
    assert seen  # some interval was cut
    assert all(test.effect.lo >= -1 for test in tests if test.kind == "gradient")


def test_what_is_cut_keeps_its_p_and_stays_cut_when_variance_is_shared():
    values = [np.array([0.1, 0.9]), np.array([-0.8, 0.7])]
    whole = [over_seeds(own) for own in values]
    cut = [one.cut((-1.0, 1.0)) for one in whole]
    assert [one.p for one in cut] == [one.p for one in whole]
    assert all((one.lo, one.hi) == (-1.0, 1.0) for one in pooled(cut))
    assert np.isnan(over_seeds(np.array([0.1])).cut((-1.0, 1.0)).lo)


def test_a_narrow_interval_is_left_as_it_is():
    values = np.array([0.5, 0.51, 0.52])
    assert t_interval_of(values, range_of("recall")) == t_interval_of(values)


def test_only_what_can_exceed_1_may():
    values = np.array([0.2, 3.0])
    assert t_interval_of(values, range_of("exposure"))[1:] == (0.0, t_interval_of(values)[2])
    assert t_interval_of(values, range_of("exposure_gap")) == t_interval_of(values)
    for share in ("accuracy", "recall", "tail_worst", "ece", "clip_fraction", "membership_auc"):
        assert range_of(share) == (0.0, 1.0)
