# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import numpy as np
import pytest
from planted_cells import baseline, cell, planted_recall, set_value, slices, sweep
from planted_run_files import caption, marks, table_of, texts, titled

from analysis import style
from analysis.figures.tail_curves import figure


def _rare(rule, norm, seed):
    return planted_recall("8", rule, norm, seed)


def test_a_line_holds_the_mean_over_seeds_at_every_threshold(tmp_path):
    drawn = figure(table_of(tmp_path, *sweep(["flat", "adaptive"], [0.5, 1.0], 3)))
    axes = titled(drawn, "Recall on 8")
    found = marks(axes, "flat")
    means = [np.mean([_rare("flat", norm, seed) for seed in range(3)]) for norm in (0.5, 1.0)]
    assert [x for x, _ in found] == [0.5, 1.0]
    assert [y for _, y in found] == pytest.approx(means)
    seeds = [y for _, y in marks(axes, "seeds")]
    assert len(seeds) == 12
    assert _rare("adaptive", 0.5, 2) in [pytest.approx(y) for y in seeds]


def test_the_band_is_the_t_interval_over_seeds(tmp_path):
    drawn = figure(table_of(tmp_path, *sweep(["flat"], [0.5, 1.0], 3)))
    (band, *_) = titled(drawn, "Recall on 8").collections
    low, high = band.get_paths()[0].get_extents().intervaly
    half = 4.302653 * 0.01 / np.sqrt(3)  # seeds differ by 0.01
    mean = [np.mean([_rare("flat", norm, s) for s in range(3)]) for norm in (0.5, 1.0)]
    assert low == pytest.approx(min(mean) - half, abs=1e-6)
    assert high == pytest.approx(max(mean) + half, abs=1e-6)


def test_the_ring_is_at_the_best_threshold_of_validation_not_of_test(tmp_path):
    cells = sweep(["flat"], [0.5, 1.0], 2)
    for content in cells:
        if content["clip_norm"] == 0.5:
            where = {"split": "validation", "slice": "all", "metric": "accuracy"}
            set_value(content, where, 0.99, 1000)
    drawn = figure(table_of(tmp_path, *cells))
    (ring,) = marks(titled(drawn, "Recall on 8"), "best of flat")
    assert ring[0] == 0.5
    assert "best C by validation accuracy" in texts(drawn, "legend")


@pytest.mark.parametrize(("scale", "rings"), [("by_norm", 0), ("fixed", 1)])
def test_no_ring_is_drawn_where_the_threshold_does_nothing(tmp_path, scale, rings):
    drawn = figure(table_of(tmp_path, *sweep(["automatic"], [0.5, 1.0], 2, lr_scale=scale)))
    assert len(marks(titled(drawn, "Recall on 8"), "best of automatic")) == rings
    assert ("C does nothing in automatic" in caption(drawn)) == (not rings)
    assert ("best C by validation accuracy" in texts(drawn, "legend")) == bool(rings)


def test_the_baseline_is_a_level_and_called_not_private(tmp_path):
    drawn = figure(table_of(tmp_path, *sweep(["flat"], [1.0], 3)))
    levels = [y for _, y in marks(titled(drawn, "Recall on 8"), "baseline")]
    assert levels == pytest.approx([np.mean([_rare("none", None, s) for s in range(3)])] * 2)
    assert "baseline (not private)" in texts(drawn, "legend")
    assert "no guarantee (ε = ∞): diagnostic, not private" in caption(drawn)


def test_epsilon_comes_with_accountant_delta_and_unit_and_n_is_on_the_axis(tmp_path):
    content = cell(unit="user", unit_name="household", delta=6e-5)
    drawn = figure(table_of(tmp_path, content, baseline()))
    assert "ε = 3 (PLD), δ = 6e-5, unit user (household)" in caption(drawn)
    assert "lr_scale=by_norm" in caption(drawn)
    n = [axes.get_ylabel() for axes in drawn.axes]
    assert n[0].startswith("share right (n = ")


def test_one_seed_has_no_band_and_the_caption_says_so(tmp_path):
    drawn = figure(table_of(tmp_path, cell(), baseline()))
    assert "1 seed, so no interval" in caption(drawn)


def test_only_the_epsilon_with_most_cells_is_drawn_and_the_others_are_named(tmp_path):
    cells = sweep(["flat"], [0.5, 1.0], 2)
    other = cell(more="8", epsilon=8.0, epsilon_target=8.0)
    drawn = figure(table_of(tmp_path, *cells, other))
    assert len(marks(titled(drawn, "Recall on 8"), "flat")) == 2
    assert "Drawn is ε = 3, which has most cells; not ε = 8" in caption(drawn)


def test_without_a_rare_label_the_panel_says_so(tmp_path):
    drawn = figure(table_of(tmp_path, *sweep(["flat"], [1.0], 2, places=slices(["a", "b"], []))))
    assert any("no cell has a value" in text for text in texts(drawn, "why empty"))


def test_two_families_do_not_fit(tmp_path):
    with pytest.raises(ValueError, match="one data set"):
        figure(table_of(tmp_path, cell(), cell(seed=1, model="cnn")))


def test_the_first_28_lines_are_all_different():
    looks = [tuple(map(str, style.series(place).values())) for place in range(28)]
    assert len(set(looks)) == 28
