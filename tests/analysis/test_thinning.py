from __future__ import annotations

from planted_cells import baseline, cell, sweep
from planted_run_files import table_of

from analysis.conditions import conditions
from analysis.thinning import for_map


def _rows(table):
    return conditions(table)["condition"].nunique()


def test_a_map_that_fits_is_left_as_it_is(tmp_path):
    table = table_of(tmp_path, *sweep(["flat"], [0.5, 1.0], 2))
    same, said = for_map(table, most=3)
    assert len(same) == len(table)
    assert said == ""


def test_diagnostics_and_other_budgets_go_first_and_it_is_said(tmp_path):
    cells = [*sweep(["flat"], [0.5, 1.0], 2), cell(mechanism="clip_only"),
             cell(more="8", epsilon=8.0, epsilon_target=8.0)]  # fmt: skip
    left, said = for_map(table_of(tmp_path, *cells), most=4)
    assert set(left["mechanism"]) == {"private", "neither"}
    assert set(left["epsilon_target"].dropna()) == {3.0}
    assert "3 of 5 rows are drawn" in said
    assert "map.csv" in said


def test_then_only_the_ends_and_the_best_of_every_rule(tmp_path):
    norms = [0.1, 0.2, 0.3, 0.4, 0.5]
    table = table_of(tmp_path, *sweep(["flat", "adaptive"], norms, 1))
    left, said = for_map(table, most=8)
    assert set(left.loc[left["rule"] == "flat", "clip_norm"]) == {0.1, 0.5}  # the best is an end
    assert _rows(left) == 5
    assert "smallest" in said


def test_without_a_private_cell_the_first_rows_are_drawn(tmp_path):
    cells = [cell("flat", norm, mechanism="clip_only", baseline=False) for norm in (0.1, 0.2, 0.3)]
    left, said = for_map(table_of(tmp_path, *cells), most=2)
    assert _rows(left) == 2
    assert "2 of 3 rows" in said
    assert baseline()["run_key"] not in set(left["run_key"])
