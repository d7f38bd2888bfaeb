"""A few large or outlying numbers leave the rest of a figure readable."""

from __future__ import annotations

import pytest
from matplotlib.collections import PolyCollection
from planted_cells import baseline, cell, set_value, sweep
from planted_run_files import NOTHING, caption, marks, table_of, titled

from analysis.figures.map import figure as map_figure
from analysis.figures.map_view import map_view
from analysis.figures.tail_curves import figure as tail_curves
from analysis.figures.utility import figure as utility


def _kept_above(folder, *, above):
    cells = sweep(["flat"], [0.5, 1.0], 1)
    generous = cell("automatic", 1.0, 0)
    set_value(generous, {"metric": "kept", "slice": "3"}, above, 90)
    return table_of(folder, *cells, generous)


def test_what_keeps_more_than_all_is_marked_and_leaves_the_colours_of_the_rest(tmp_path):
    table = _kept_above(tmp_path, above=2.31)
    (family,) = map_view(table).families
    kept = family.panels[0]
    assert kept.limits == (0.0, pytest.approx(1.0))
    drawn = map_figure(table)
    panel = next(axes for axes in drawn.axes if axes.get_title(loc="left") == "a  Kept")
    assert len([patch for patch in panel.patches if patch.get_gid() == "above"]) == 1
    words = [text.get_text() for axes in drawn.axes for text in axes.texts]
    assert words.count("dark: little kept; ▲ above 1") == 1
    assert "2.31" in words


def test_where_nothing_is_above_nothing_is_said_of_it(tmp_path):
    drawn = map_figure(_kept_above(tmp_path, above=0.5))
    assert not any("▲" in text.get_text() for axes in drawn.axes for text in axes.texts)


@pytest.mark.parametrize("seeds", [2, 3])
def test_two_seeds_are_drawn_themselves_and_three_have_an_interval(tmp_path, seeds):
    table = table_of(tmp_path, *sweep(["flat"], [0.5, 1.0], seeds))
    curves, front = tail_curves(table), utility(table, NOTHING["ledgers"])
    axes = titled(curves, "Recall on 8")
    assert len(marks(axes, "seeds")) == 2 * seeds
    bands = [one for one in axes.collections if isinstance(one, PolyCollection) and one.get_paths()]
    assert bool(bands) == (seeds > 2)
    mean = titled(front, "Mean and tail, ε = 3")
    assert bool(marks(mean, "interval")) == (seeds > 2)
    assert bool(marks(mean, "seeds")) == (seeds == 2)
    for drawn in (curves, front):
        assert ("2 seeds are too few for an interval" in caption(drawn)) == (seeds == 2)
        assert ("over 3 seeds" in caption(drawn)) == (seeds > 2)


def _tick_places(axes):
    width = axes.get_window_extent().width
    ends = [axes.transData.transform((tick, 0.0))[0] for tick in axes.get_xticks()]
    return [(end - axes.get_window_extent().x0) / width for end in ends]


def test_one_outlying_threshold_cuts_the_axis_and_squeezes_no_other(tmp_path):
    table = table_of(tmp_path, *sweep(["flat"], [1e-30, 0.1, 1.0, 5.0], 1))
    axes = titled(tail_curves(table), "Recall on 8")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1e-30", "0.1", "1", "5"]
    places = _tick_places(axes)
    assert places[3] - places[1] > 0.4
    assert [text.get_text() for text in axes.texts if text.get_gid() == "cut"] == ["//"]
    near, far = titled(tail_curves(table.loc[table["clip_norm"] != 1e-30]), "Recall on 8"), axes
    assert not [text for text in near.texts if text.get_gid() == "cut"]
    steps = [place - places[1] for place in places[1:]]
    plain = [place - _tick_places(near)[0] for place in _tick_places(near)]
    assert steps[1] / steps[2] == pytest.approx(plain[1] / plain[2])  # decades stay decades
    assert marks(far, "flat") != marks(near, "flat")


def test_settings_of_every_row_are_said_once_below_the_map_and_others_beside_theirs(tmp_path):
    rated = [(0.5, 64.0, cell("flat", norm)) for norm in (0.1, 1.0, 5.0)]
    rated += [(0.5, 256.0, cell("adaptive")), (1e6, 64.0, cell(mechanism="clip_only"))]
    rated += [(0.1, 64.0, baseline())]
    cells = [one | {"config.optim.lr": lr, "config.batch": n} for lr, n, one in rated]
    table = table_of(tmp_path, *cells)
    rows = map_view(table).families[0].rows
    by_part = {(row.part, row.group): row.detail for row in rows}
    assert by_part["private", "flat"] == "batch=64"
    assert by_part["private", "adaptive"] == "batch=256"
    assert by_part["baseline", "baseline"] == ""
    assert by_part["diagnostic", "flat, clip only"] == "batch=64, optim.lr=1000000"
    words = caption(map_figure(table))
    assert "Every private row: optim.lr=0.5." in words
    assert "Baselines: batch=64, optim.lr=0.1." in words
