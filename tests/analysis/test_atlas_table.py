# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_cells import TAIL_LABEL, baseline, cell, planted_recall, set_value, sweep, write

from analysis.cells import read_cells
from analysis.conditions import conditions, shown_epsilon
from analysis.table import against_baseline, aggregate, over_seeds, unpaired


def _table(tmp_path, *cells):
    return read_cells(write(tmp_path, *cells)).table


def _recall(table, **where):
    rows = table[(table["metric"] == "recall") & (table["split"] == "test")]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows


def test_mean_and_spread_are_those_of_the_planted_seeds(tmp_path):
    found = aggregate(_table(tmp_path, *sweep(["flat"], [1.0], 3)))
    row = _recall(found, rule="flat", slice=TAIL_LABEL).iloc[0]
    planted = [planted_recall(TAIL_LABEL, "flat", 1.0, seed) for seed in range(3)]
    assert row["mean"] == pytest.approx(np.mean(planted))
    assert row["sd"] == pytest.approx(np.std(planted, ddof=1))
    assert (row["low"], row["high"]) == pytest.approx((min(planted), max(planted)))
    assert row["seeds"] == 3


def test_the_planted_loss_of_the_tail_is_larger_than_that_of_the_head(tmp_path):
    table = _table(tmp_path, *sweep(["flat"], [1.0], 3))
    rows = against_baseline(_recall(table, rule="flat"), table)
    mean = over_seeds(rows, conditions(table), "difference").set_index("slice")["mean"]
    assert mean[TAIL_LABEL] == pytest.approx(-0.55 * 0.7)
    assert mean["0"] == pytest.approx(-0.55 * 0.12)


def test_each_cell_is_compared_with_the_baseline_that_it_names(tmp_path):
    cells = [baseline(0), baseline(1), cell(seed=0), cell(seed=1)]
    for content, recall in zip(cells, [0.9, 0.7, 0.8, 0.5], strict=True):
        set_value(content, {"metric": "recall", "slice": "3"}, recall, 100)
    table = _table(tmp_path, *cells)
    rows = against_baseline(_recall(table, rule="flat", slice="3"), table)
    difference = rows.set_index("seed")["difference"]
    assert difference[0] == pytest.approx(-0.1)
    assert difference[1] == pytest.approx(-0.2)


def test_the_spread_of_a_difference_is_that_of_the_pairs(tmp_path):
    cells = [baseline(0), baseline(1), cell(seed=0), cell(seed=1)]
    for content, recall in zip(cells, [0.9, 0.5, 0.8, 0.4], strict=True):
        set_value(content, {"metric": "recall", "slice": "3"}, recall, 100)
    table = _table(tmp_path, *cells)
    rows = against_baseline(_recall(table, rule="flat", slice="3"), table)
    assert over_seeds(rows, conditions(table), "difference")["sd"].iloc[0] == pytest.approx(0.0)
    assert over_seeds(rows, conditions(table))["sd"].iloc[0] == pytest.approx(0.4 / math.sqrt(2))


def test_without_its_baseline_a_cell_has_no_difference_and_is_named(tmp_path):
    alone = cell(seed=1)
    table = _table(tmp_path, cell(seed=0), baseline(0), alone, cell(seed=2, baseline=False))
    rows = against_baseline(_recall(table, rule="flat", slice="3"), table).set_index("seed")
    assert list(rows["difference"].isna().sort_index()) == [False, True, True]
    assert set(unpaired(table)) == {alone["run_key"], cell(seed=2)["run_key"]}


def test_with_one_seed_there_is_no_spread(tmp_path):
    found = aggregate(_table(tmp_path, cell()))
    assert found["sd"].isna().all()
    assert set(found["seeds"]) == {1}


def test_a_missing_value_does_not_count_as_a_seed(tmp_path):
    cells = [cell(seed=seed) for seed in range(3)]
    set_value(cells[0], {"slice": "3", "metric": "recall"}, None, 0)
    for content in cells:
        set_value(content, {"slice": "4", "metric": "recall"}, None, 0)
    found = aggregate(_table(tmp_path, *cells))
    some, none = (_recall(found, slice=name).iloc[0] for name in "34")
    planted = [planted_recall("3", "flat", 1.0, seed) for seed in (1, 2)]
    assert some["seeds"] == 2
    assert some["mean"] == pytest.approx(np.mean(planted))
    assert none["seeds"] == 0
    assert math.isnan(none["mean"])


def test_rows_stand_in_the_order_of_the_figure(tmp_path):
    cells = sweep(["per_layer", "flat", "adaptive"], [3.0, 0.3, 1.0], 1)
    named = conditions(_table(tmp_path, *cells, cell(mechanism="clip_only")))
    order = named.drop_duplicates("condition")[["part", "rule", "clip_norm"]]
    expected = [("baseline", "none", None)]
    expected += [("private", r, c) for r in ("flat", "adaptive", "per_layer") for c in (0.3, 1, 3)]
    expected += [("diagnostic", "flat", 1.0)]
    found = [(p, r, None if math.isnan(c) else c) for p, r, c in order.itertuples(index=False)]
    assert found == expected


def test_private_cells_at_two_budgets_are_two_conditions(tmp_path):
    cells = [
        cell(seed=seed, more=str(e), epsilon=e * 0.999, epsilon_target=e)
        for e in (1.0, 8.0)
        for seed in (0, 1)
    ]
    named = conditions(_table(tmp_path, *cells))
    assert sorted(set(named["shown_epsilon"])) == [1.0, 8.0]
    assert named["condition"].nunique() == 2


@pytest.mark.parametrize(
    ("reached", "target", "shown"),
    [
        (2.9991, 3.0, 3.0),
        (3.0, 3.0, 3.0),
        (1.2, 3.0, 1.2),
        (3.0001, 3.0, 3.01),
        (1.2341, math.nan, 1.24),
        (0.01234, math.nan, 0.0124),
        (math.inf, math.nan, math.inf),
        (math.inf, 3.0, math.inf),
    ],
)
def test_a_shown_epsilon_is_the_target_only_where_it_was_spent(reached, target, shown):
    assert shown_epsilon(reached, target) == pytest.approx(shown)


@given(st.floats(1e-4, 1e4), st.floats(1e-4, 1e4))
def test_a_shown_epsilon_never_understates(reached, target):
    assert shown_epsilon(reached, target) >= reached * (1 - 1e-9)
    assert shown_epsilon(reached, target) <= reached * 1.021
