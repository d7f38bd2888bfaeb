# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import pandas as pd
import pytest
from planted_cells import baseline, cell, set_value
from planted_run_files import caption, marks, table_of, texts, titled

from analysis.conditions import conditions
from analysis.effects import effects, partners
from analysis.figures.attribution import figure

RECALL = {"private": 0.30, "clip_only": 0.60, "noise_only": 0.50, "neither": 0.80}


def _four(norms=(1.0,), seeds=(0, 1, 2), left_out=()):
    """All mechanisms; each seed adds 0.01 to all of them, so that effects have no spread."""
    cells = [baseline(seed) for seed in seeds]
    for norm in norms:
        for mechanism in ("private", "clip_only", "noise_only"):
            cells += [
                cell("flat", norm, seed, mechanism=mechanism, epsilon_target=3.0) for seed in seeds
            ]
    for content in cells:
        value = RECALL[content["mechanism"]] + 0.01 * content["seed"]
        set_value(content, {"split": "test", "metric": "recall", "slice": "tail"}, value, 40)
    return [content for content in cells if content["mechanism"] not in left_out]


def _bars(axes):
    return {
        container.patches[0].get_gid(): [patch.get_height() for patch in container.patches]
        for container in axes.containers
    }


def _of_tail(drawn):
    return {
        name: heights[0]
        for name, heights in (
            (gid, [patch.get_height() for patch in titled(drawn, "Tail, by C").patches
                   if patch.get_gid() == gid])
            for gid in ("clipping", "noise", "interaction")
        )
    }  # fmt: skip


def test_the_three_effects_add_up_to_the_fall(tmp_path):
    table = table_of(tmp_path, *_four())
    pairs = partners(table, conditions(table))
    values = pd.DataFrame({
        "x": {key: RECALL[mechanism] for key, mechanism in
              table.drop_duplicates("run_key")[["run_key", "mechanism"]].itertuples(index=False)}
    })  # fmt: skip
    found = effects(values, pairs)
    assert found["clipping"] == pytest.approx(0.2)
    assert found["noise"] == pytest.approx(0.3)
    assert found["fall"] == pytest.approx(0.5)
    assert found["interaction"] == pytest.approx(0.0)


def test_bars_are_in_points_and_the_whole_fall_is_beside_them(tmp_path):
    drawn = figure(table_of(tmp_path, *_four()))
    assert _of_tail(drawn) == pytest.approx({"clipping": 20, "noise": 30, "interaction": 0})
    ((_, fall),) = marks(titled(drawn, "Tail, by C"), "fall")
    assert fall == pytest.approx(50)


def test_cells_are_paired_by_seed_so_that_what_seeds_share_is_no_spread(tmp_path):
    drawn = figure(table_of(tmp_path, *_four()))
    lines = titled(drawn, "Tail, by C").collections[0].get_segments()
    assert all(high - low == pytest.approx(0, abs=1e-9) for (_, low), (_, high) in lines)


def test_a_missing_mechanism_is_counted_and_its_bars_are_left_out(tmp_path):
    drawn = figure(table_of(tmp_path, *_four(left_out=("noise_only",))))
    assert "Of 3 private cells 3 without noise_only are left out there" in caption(drawn)
    assert pd.isna(_of_tail(drawn)["noise"])
    assert _of_tail(drawn)["clipping"] == pytest.approx(20)


def test_without_a_baseline_the_figure_says_why_it_is_empty(tmp_path):
    drawn = figure(table_of(tmp_path, cell(baseline=False)))
    assert any("no baseline beside these cells" in text for text in texts(drawn, "why empty"))


def test_noise_of_another_budget_is_no_partner(tmp_path):
    cells = [cell(), baseline(), cell(mechanism="noise_only", epsilon_target=8.0),
             cell(mechanism="clip_only", epsilon_target=8.0)]  # fmt: skip
    table = table_of(tmp_path, *cells)
    (pair,) = partners(table, conditions(table)).to_dict("records")
    assert pd.isna(pair["noise_only"])
    assert pd.notna(pair["clip_only"])


def test_diagnostics_are_called_not_private(tmp_path):
    drawn = figure(table_of(tmp_path, *_four()))
    assert "diagnostic, not private (ε = ∞)" in caption(drawn)


def test_the_whole_fall_stands_at_its_threshold_where_nothing_splits_it(tmp_path):
    left_out = ("clip_only", "noise_only")
    drawn = figure(table_of(tmp_path, *_four(norms=(0.5, 1.0), left_out=left_out)))
    assert [x for x, _ in marks(titled(drawn, "Tail, by C"), "fall")] == [0.0, 1.0]
    beside = figure(table_of(tmp_path / "all", *_four(norms=(0.5, 1.0))))
    assert [x for x, _ in marks(titled(beside, "Tail, by C"), "fall")] == pytest.approx(
        [0.41, 1.41]
    )
