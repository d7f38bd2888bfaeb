from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from planted_cells import LABELS, TAIL_LABEL, baseline, cell, set_value, slices, sweep, write

from analysis import style
from analysis.cells import read_cells
from analysis.figures.map import figure
from analysis.figures.map_view import map_view
from analysis.figures.tiles import number
from analysis.slices import slice_columns

ODD = [
    "NA",
    "cat (small)",
    "$x$ and $5",
    "$y$",
    "a/b_c",
    "猫和狗",
    "a quite long name for one class",
    "",
]


def _table(tmp_path, *cells):
    return read_cells(write(tmp_path, *cells)).table


def _only_family(table):
    (family,) = map_view(table).families
    return family


def _texts(drawn):
    texts = [text for text in drawn.findobj(Text) if text.get_text() and text.get_visible()]
    return [text.get_text().replace("\n", " ") for text in texts]


def _caption(drawn):
    (found,) = [text for text in drawn.texts if text.get_gid() == "caption"]
    return found.get_text().replace("\n", " ")


def _panels(drawn):
    return {axes.get_title(loc="left")[3:]: axes for axes in drawn.axes if axes.get_title("left")}


def test_four_panels_and_kept_leads(tmp_path):
    drawn = figure(_table(tmp_path, *sweep(["flat"], [1.0], 2)))
    assert list(_panels(drawn)) == ["Kept", "Clip fraction", "Recall − baseline recall", "ECE"]


def test_without_any_calibration_error_there_is_no_panel_of_it(tmp_path):
    cells = sweep(["flat"], [1.0], 2)
    for content in cells:
        set_value(content, {"metric": "ece"}, None, 0)
    assert "ECE" not in _panels(figure(_table(tmp_path, *cells)))


def test_tiles_hold_the_planted_numbers(tmp_path):
    view = _only_family(_table(tmp_path, *sweep(["flat", "adaptive"], [0.5, 1.0], 3)))
    tail = [column.name for column in view.columns].index(TAIL_LABEL)
    rows = [(row.group, row.label) for row in view.rows]
    flat = rows.index(("flat", "C = 1"))
    kept, clipped, recall, ece = view.panels
    assert kept.mean[flat, tail] == pytest.approx(0.225)
    assert kept.sd[flat, tail] == pytest.approx(0.005)
    assert clipped.mean[flat, tail] == pytest.approx(0.925)
    assert recall.mean[flat, tail] == pytest.approx(-0.55 * 0.7)
    assert recall.mean[0, tail] == pytest.approx(0.71)
    assert np.all(recall.seeds == 3)
    assert ece.mean[0, tail] == pytest.approx(1 - 0.71)
    assert ece.mean[flat, tail] == pytest.approx(1 - 0.71 + 0.55 * 0.7)
    assert ece.sd[flat, tail] == pytest.approx(0.01)


def test_a_tile_shows_its_mean_and_its_spread(tmp_path):
    drawn = figure(_table(tmp_path, *sweep(["flat"], [1.0], 3)))
    panels = _panels(drawn)
    assert "−.39" in [text.get_text() for text in panels["Recall − baseline recall"].texts]
    assert {".45", "±.01"} <= {text.get_text() for text in panels["Kept"].texts}
    assert "mean over 3 seeds" in _caption(drawn)


def test_with_one_seed_no_spread_is_shown_and_the_caption_says_so(tmp_path):
    drawn = figure(_table(tmp_path, cell(), baseline()))
    assert not any("±" in text for text in _texts(drawn))
    assert "1 seed, so no spread" in _caption(drawn)


def test_without_a_baseline_recall_is_plain_and_the_title_says_so(tmp_path):
    table = _table(tmp_path, cell(baseline=False))
    assert "Recall (no baseline)" in _panels(figure(table))
    recall = _only_family(table).panels[2].mean[0, 0]
    assert recall == pytest.approx(0.95 - 0.55 * 0.12 - 0.01, abs=0.02)


def test_cells_whose_baseline_is_missing_are_counted(tmp_path):
    table = _table(tmp_path, *sweep(["flat"], [1.0], 2), cell(seed=7))
    drawn = figure(table)
    assert any("without 1 cell that had no finished baseline" in text for text in _texts(drawn))
    assert "±.00 (2)" in _texts(drawn)


def test_diagnostics_are_rows_of_their_own_and_marked(tmp_path):
    cells = [*sweep(["flat"], [1.0], 2), *(cell(seed=s, mechanism="clip_only") for s in (0, 1))]
    drawn = figure(_table(tmp_path, *cells))
    assert "flat, clip only" in _texts(drawn)
    assert "diagnostic, not private" in _texts(drawn)
    assert "no guarantee (ε = ∞)" in _caption(drawn)


def test_every_epsilon_comes_with_its_accountant_delta_and_unit(tmp_path):
    content = cell(unit="user", unit_name="household", delta=6e-5)
    assert "ε = 3 (PLD), δ = 6e-5, unit user (household)" in _caption(
        figure(_table(tmp_path, content))
    )


def test_several_budgets_are_told_apart_in_the_rows(tmp_path):
    cells = [cell(more=str(e), epsilon=e, epsilon_target=e) for e in (1.0, 8.0)]
    drawn = figure(_table(tmp_path, *cells))
    assert {"ε = 1", "ε = 8"} <= set(_texts(drawn))
    assert "ε = 1, 8 (PLD)" in _caption(drawn)


@pytest.mark.parametrize(
    ("how", "words"), [("by_norm", "divided by C (lr_scale=by_norm)"), ("fixed", "lr_scale=fixed")]
)
def test_the_caption_says_how_the_learning_rate_went_with_the_threshold(tmp_path, how, words):
    assert words in _caption(figure(_table(tmp_path, cell(lr_scale=how))))


@pytest.mark.parametrize(
    ("release", "words"),
    [("private", "diagnostic, not private"), ("accounted", "noised, and inside ε")],
)
def test_the_caption_says_what_the_telemetry_cost(tmp_path, release, words):
    content = cell()
    for row, split in enumerate(content["metrics"]["split"]):
        if split == "train":
            content["metrics"]["release"][row] = release
    drawn = figure(_table(tmp_path, content, baseline()))
    assert f"Kept and clip fraction: {words}" in _caption(drawn)


def test_the_tail_is_found_by_its_training_examples_and_framed(tmp_path):
    table = _table(tmp_path, *sweep(["flat"], [1.0], 1))
    tail = [(column.kind, column.name) for column in slice_columns(table) if column.tail]
    assert tail == [("rarity", "tail"), ("label", TAIL_LABEL)]
    axes = figure(table).axes[0]
    frames = [patch for patch in axes.patches if to_hex(patch.get_edgecolor()) == style.TAIL]
    assert len(frames) == 2
    bold = {text.get_text() for text in axes.texts if text.get_color() == style.TAIL}
    assert bold == {"tail", TAIL_LABEL}


def test_slices_stand_in_groups_and_numbers_in_their_order(tmp_path):
    places = slices(["10", "9", "1"], ["head", "tail"])
    columns = slice_columns(_table(tmp_path, cell(places=list(reversed(places)))))
    assert [column.name for column in columns] == ["all", "tail", "head", "1", "9", "10"]


def test_odd_names_are_drawn_as_they_are(tmp_path):
    drawn = figure(_table(tmp_path, *sweep(["flat"], [1.0], 2, places=slices(ODD))))
    FigureCanvasAgg(drawn).draw()
    texts = _texts(drawn)
    assert {"NA", "cat (small)", "$x$ and $5", "$y$", "a/b_c", "(empty)"} <= set(texts)
    assert not any(t.get_parse_math() for t in drawn.findobj(Text) if "$" in t.get_text())
    assert any("猫和狗" in text.replace(" ", "") for text in texts)
    assert any(text.startswith("a quite") and "…" in text for text in texts)


def test_a_slice_without_values_is_hatched_and_explained(tmp_path):
    cells = sweep(["flat"], [1.0], 2)
    for content in cells:
        set_value(content, {"slice": "5"}, None, 0)
    drawn = figure(_table(tmp_path, *cells))
    for axes in _panels(drawn).values():
        assert [text.get_text() for text in axes.texts].count("–") == 2
        assert sum(bool(patch.get_hatch()) for patch in axes.patches) == 2
    assert "Hatched (–)" in _caption(drawn)


def test_a_cell_without_any_value_is_an_empty_row(tmp_path):
    empty = cell("adaptive", baseline=False)
    set_value(empty, {}, None, 0)
    view = _only_family(_table(tmp_path, *sweep(["flat"], [1.0], 1), empty))
    assert [row.group for row in view.rows] == ["baseline", "flat", "adaptive"]
    for panel in view.panels:
        assert [bool(np.isnan(row).all()) for row in panel.mean] == [False, False, True]
    alone = _table(tmp_path / "alone", empty)
    assert "Hatched (–)" in _caption(figure(alone))


def test_the_test_n_of_every_slice_stands_above_its_tiles(tmp_path):
    content = cell()
    for place, name in enumerate(LABELS):
        set_value(content, {"slice": name, "split": "test"}, 0.5, 12_000 + 1000 * place)
    texts = _texts(figure(_table(tmp_path, content)))
    assert {f"{12 + place}k" for place in range(10)} <= set(texts)


SIZES = {
    "1 row, 1 slice": (["flat"], [1.0], slices([], [])),
    "1 row, 3 slices": (["flat"], [1.0], slices(["a", "b"], [])),
    "61 rows, 4 slices": ([f"r{i:02}" for i in range(20)], [0.5, 1.0, 2.0], slices(["a"])),
    "30 rows of one rule": (["flat"], [0.1 * i for i in range(1, 31)], slices(["a"], [])),
    "3 rows, 30 slices": (["flat"], [0.5, 1.0], slices([f"c{i}" for i in range(27)])),
    "long names": (["a_rule_with_a_long_name"], [1.0], slices([*ODD, "the last name is long too"])),
}


@pytest.mark.parametrize("size", ["1 row, 3 slices", "3 rows, 30 slices", "long names"])
def test_every_letter_can_be_read(tmp_path, size):
    rules, norms, places = SIZES[size]
    drawn = figure(_table(tmp_path, *sweep(rules, norms, 2, places=places)))
    said = [text for text in drawn.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in said) >= 6.5


@pytest.mark.parametrize("size", SIZES)
def test_nothing_lies_outside_the_figure(tmp_path, size):
    rules, norms, places = SIZES[size]
    drawn = figure(_table(tmp_path, *sweep(rules, norms, 1, places=places)))
    canvas = FigureCanvasAgg(drawn)
    page = drawn.bbox
    with style.drawing():
        for text in drawn.findobj(Text):
            if not text.get_text() or not text.get_visible():
                continue
            box = text.get_window_extent(canvas.get_renderer())
            assert box.x0 >= page.x0 - 1, text.get_text()
            assert box.x1 <= page.x1 + 1, text.get_text()
            assert box.y0 >= page.y0 - 1, text.get_text()
            assert box.y1 <= page.y1 + 1, text.get_text()


def test_a_long_map_repeats_the_names_of_its_slices(tmp_path):
    long = sweep([f"r{i:02}" for i in range(20)], [0.5, 1.0, 2.0], 1, places=slices(["only"]))
    texts = [text.get_text() for text in figure(_table(tmp_path, *long)).axes[0].texts]
    assert texts.count("only") >= 3


def test_cells_of_two_models_do_not_fit_on_one_map(tmp_path):
    table = _table(tmp_path, cell(), cell(seed=1, model="cnn"))
    with pytest.raises(ValueError, match="mnist_tail, cnn"):
        figure(table)


def test_the_readers_settings_change_nothing_and_stay_as_they_were(tmp_path):
    table = _table(tmp_path, *sweep(["flat"], [1.0], 2, places=slices(["a", "b"])))
    plain = style.save(figure(table), tmp_path / "plain", "map", "t")[1].read_bytes()
    with mpl.rc_context({"text.color": "red", "font.size": 30, "svg.fonttype": "none"}):
        changed = style.save(figure(table), tmp_path / "changed", "map", "t")[1].read_bytes()
        assert mpl.rcParams["font.size"] == 30
    assert plain == changed


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (0.4249, False, ".42"),
        (1.0, False, "1.00"),
        (-0.031, True, "−.03"),
        (0.2, True, "+.20"),
        (-0.001, True, ".00"),
        (float("nan"), True, "–"),
    ],
)
def test_numbers_are_short(value, signed, text):
    assert number(value, signed) == text


@pytest.mark.parametrize("cmap", [style.SURVIVING, style.LOST, style.CHANGE])
def test_numbers_can_be_read_on_every_colour(cmap):
    for share in np.linspace(0, 1, 101):
        face = cmap(share)
        assert style.contrast(style.ink_on(face), face) >= 4.0


def test_a_loss_is_much_darker_than_an_equal_gain_in_grey():
    for change in (0.25, 0.4, 0.5):
        loss, gain = style.CHANGE(0.5 - change), style.CHANGE(0.5 + change)
        assert style.contrast("#000000", gain) > 1.7 * style.contrast("#000000", loss)


@pytest.mark.parametrize("cmap", [style.SURVIVING, style.LOST])
def test_a_scale_of_shares_goes_one_way_in_grey(cmap):
    grey = [style.contrast("#000000", cmap(share)) for share in np.linspace(0, 1, 64)]
    assert np.all(np.diff(grey) > 0) or np.all(np.diff(grey) < 0)
