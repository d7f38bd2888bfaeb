# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from planted_cells import baseline, cell, key_of, set_value, sweep
from planted_run_files import NOTHING, caption, ledger, marks, table_of, texts, titled

from analysis.figures.utility import figure, wanted

LEDGER = {"pld": 2.998, "rdp": 3.35, "prv": 3.03, "gdp": 2.84}


def _at(epsilon, norm=1.0, seed=0, mean=0.8, tail=0.4):
    content = cell("flat", norm, seed, more=f"{epsilon}-{norm}-{seed}", epsilon=epsilon,
                   epsilon_target=epsilon)  # fmt: skip
    set_value(content, {"split": "test", "metric": "macro_accuracy"}, mean, 500)
    set_value(content, {"split": "test", "metric": "tail_band"}, tail, 50)
    return content


def test_a_point_is_mean_and_tail_accuracy_of_a_threshold(tmp_path):
    cells = [_at(3.0, 0.5, mean=0.7, tail=0.2), _at(3.0, 1.0, mean=0.8, tail=0.4), baseline()]
    drawn = figure(table_of(tmp_path, *cells), NOTHING["ledgers"])
    points = marks(titled(drawn, "Mean and tail, ε = 3"), "flat")
    assert [x for x, _ in points] == pytest.approx([0.7, 0.8])
    assert [y for _, y in points] == pytest.approx([0.2, 0.4])


def test_the_ladder_has_a_rung_for_every_epsilon(tmp_path):
    cells = [_at(1.0, tail=0.1), _at(3.0, tail=0.4), _at(8.0, tail=0.6), baseline()]
    drawn = figure(table_of(tmp_path, *cells), NOTHING["ledgers"])
    rungs = marks(titled(drawn, "Tail against ε"), "flat")
    assert [x for x, _ in rungs] == [1.0, 3.0, 8.0]
    assert [y for _, y in rungs] == pytest.approx([0.1, 0.4, 0.6])
    assert "ε = 1, 3, 8 (PLD)" in caption(drawn)


def test_one_epsilon_is_no_ladder_and_the_caption_says_so(tmp_path):
    drawn = figure(table_of(tmp_path, *sweep(["flat"], [1.0], 2)), NOTHING["ledgers"])
    assert "These cells have one ε" in caption(drawn)
    assert not [axes for axes in drawn.axes if "against ε" in axes.get_title(loc="left")]


def test_accountants_are_compared_bounds_filled_and_estimates_hollow(tmp_path):
    table = table_of(tmp_path, cell(), baseline())
    drawn = figure(table, ledger(key_of("flat", 1.0, 0), **LEDGER))
    axes = titled(drawn, "ε by accountant")
    for name, epsilon in LEDGER.items():
        assert [x for x, _ in marks(axes, name)] == [epsilon]
    faces = {line.get_gid(): line.get_markerfacecolor() for line in axes.lines}
    assert faces["rdp"] != faces["gdp"]
    assert marks(axes, "certified")[0][0] == 2.998
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "PLD"


def test_an_accountant_without_a_finite_epsilon_has_no_mark(tmp_path):
    table = table_of(tmp_path, cell())
    found = ledger(key_of("flat", 1.0, 0), pld=3.0, moments=float("inf"))
    assert not marks(titled(figure(table, found), "ε by accountant"), "moments")


def test_without_a_ledger_the_panel_says_why_it_is_empty(tmp_path):
    drawn = figure(table_of(tmp_path, cell()), NOTHING["ledgers"])
    assert any("ledger.json" in text for text in texts(drawn, "why empty"))


def test_one_ledger_of_every_training_is_wanted(tmp_path):
    cells = [_at(1.0), _at(3.0), _at(3.0, seed=1), _at(3.0, 0.5), baseline()]
    keys = wanted(table_of(tmp_path, *cells))
    assert len(keys) == 2


def test_without_private_cells_nothing_is_claimed(tmp_path):
    drawn = figure(table_of(tmp_path, baseline(), cell(mechanism="clip_only")), pd.DataFrame(
        columns=["run_key", "accountant", "epsilon", "bound", "certified"]))  # fmt: skip
    assert len(texts(drawn, "why empty")) == 2


def _boxes(drawn):
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    texts = [text for axes in drawn.axes for text in axes.texts
             if text.get_gid() in ("C", "C outside", "baseline")]  # fmt: skip
    return [text.get_window_extent(canvas.get_renderer()).extents for text in texts]


def test_no_words_lie_over_others_where_points_are_near_each_other(tmp_path):
    cells = [baseline()]
    for place, rule in enumerate(("flat", "adaptive", "per_layer", "automatic")):
        for norm in (0.1, 1.0, 5.0):
            content = cell(rule, norm)
            near = 0.8 + 0.004 * place * norm
            set_value(content, {"split": "test", "metric": "macro_accuracy"}, near, 500)
            set_value(content, {"split": "test", "metric": "tail_band"}, near, 50)
            cells.append(content)
    boxes = _boxes(figure(table_of(tmp_path, *cells), NOTHING["ledgers"]))
    assert len(boxes) > 3
    for place, one in enumerate(boxes):
        for two in boxes[:place]:
            assert min(one[2], two[2]) - max(one[0], two[0]) < 2 \
                or min(one[3], two[3]) - max(one[1], two[1]) < 2  # fmt: skip


def test_an_outlying_point_is_told_at_the_frame_and_squeezes_no_other(tmp_path):
    near = {0.1: 0.78, 0.3: 0.8, 1.0: 0.81, 3.0: 0.79, 5.0: 0.8}
    cells = [_at(3.0, norm, mean=mean, tail=0.4) for norm, mean in near.items()]
    lost = _at(3.0, 1e-30, mean=0.1, tail=0.0)
    axes = titled(figure(table_of(tmp_path, *cells, lost), NOTHING["ledgers"]), "Mean and tail")
    low, high = axes.get_xlim()
    assert high - low < 0.2
    ((x, _),) = marks(axes, "outside")
    assert x == pytest.approx(low)
    assert "C = 1e-30: 0.10, 0.00" in [text.get_text() for text in axes.texts]
