# pyright: reportArgumentType=false
from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from planted_cells import LABELS, baseline, cell, set_value, slices, write

from analysis import style
from analysis.cells import read_cells
from analysis.figures.map import figure
from analysis.figures.map_view import map_view
from analysis.figures.notes import LONGEST, Notes
from analysis.lettering import width
from analysis.slices import declared_rare, slice_columns

MANY = ("relation", "accountant", "batch", "optim.lr", "optim.momentum", "engine", "sampling")


def _table(tmp_path, *cells):
    return read_cells(write(tmp_path, *cells)).table


def _of_class(name, seed=0, rule="flat", **config):
    tail = {"config.data.class": name, "config.data.keep": 0.25, "config.data.profile": "one_class"}
    return cell(rule, 1.0, seed, more=f"{rule}{name}{seed}", **(tail | config))


def _texts(drawn, gid):
    return [text.get_text().replace("\n", " ") for text in drawn.texts if text.get_gid() == gid]


def _tail(columns):
    return [(column.kind, column.name) for column in columns if column.tail]


def test_every_family_has_its_own_tail_by_its_own_configuration(tmp_path):
    view = map_view(_table(tmp_path, *(_of_class(name, s) for name in "58" for s in (0, 1))))
    assert [family.heading for family in view.families] == [("data.class=5",), ("data.class=8",)]
    for family, name in zip(view.families, "58", strict=True):
        assert _tail(family.columns) == [("rarity", "tail"), ("label", name)]


def test_each_family_is_drawn_below_its_heading_with_its_own_frames(tmp_path):
    drawn = figure(_table(tmp_path, *(_of_class(name) for name in "58")))
    assert _texts(drawn, "heading") == ["data.class=5", "data.class=8"]
    assert _texts(drawn, "framed") == [
        "framed: rarity tail, label 5",
        "framed: rarity tail, label 8",
    ]
    panels = [axes for axes in drawn.axes if axes.get_title("left")]
    assert len(panels) == 8
    for axes, name in zip(panels, "55558888", strict=True):
        frames = [patch for patch in axes.patches if to_hex(patch.get_edgecolor()) == style.TAIL]
        bold = {text.get_text() for text in axes.texts if text.get_color() == style.TAIL}
        assert len(frames) == 2
        assert bold == {"tail", name}


def test_one_family_has_no_heading_and_the_caption_names_its_tail(tmp_path):
    drawn = figure(_table(tmp_path, *(_of_class("5", s) for s in (0, 1))))
    assert _texts(drawn, "heading") == []
    (caption,) = _texts(drawn, "caption")
    assert "data.class=5, data.keep=0.25, data.profile=one_class" in caption
    assert caption.count("rarity tail, label 5") == 1


def test_the_tail_needs_no_telemetry(tmp_path):
    content = _of_class("5")
    set_value(content, {"split": "train"}, None, 0)
    assert _tail(slice_columns(_table(tmp_path, content))) == [("rarity", "tail"), ("label", "5")]


@pytest.mark.parametrize(
    ("keep", "profile", "below", "rare"),
    [
        (0.25, "one_class", 0.5, {"5"}),
        (0.6, "one_class", 0.5, set()),
        (0.6, "one_class", 0.7, {"5"}),
        (0.25, "one_class", None, {"5"}),
        (1.0, "one_class", 0.5, set()),
        (0.01, "exponential", 0.5, set(LABELS[2:])),
        (0.01, "exponential", 0.1, set(LABELS[5:])),
    ],
)
def test_rare_labels_are_those_that_the_configuration_declares(
    tmp_path, keep, profile, below, rare
):
    declared = {"config.data.keep": keep, "config.data.profile": profile}
    if below is not None:
        declared["config.slices.kinds.rarity.tail_below"] = below
    assert declared_rare(_table(tmp_path, _of_class("5", **declared))) == rare


def test_without_a_tail_band_the_middle_is_not_taken_for_it(tmp_path):
    content = cell(places=slices(bands=("head", "middle")))
    set_value(content, {"slice": "middle", "metric": "kept"}, 0.5, 10)
    assert _tail(slice_columns(_table(tmp_path, content))) == [("label", "8")]


def test_families_may_have_other_slices(tmp_path):
    some = _of_class("5", places=slices(LABELS[:6]), **{"config.slices.name": "few"})
    view = map_view(_table(tmp_path, some, _of_class("8", **{"config.slices.name": "all"})))
    assert [len(family.columns) for family in view.families] == [9, 13]


def test_one_colour_means_the_same_in_every_family(tmp_path):
    cells = [baseline(), _of_class("5"), _of_class("8")]
    set_value(cells[1], {"metric": "kept"}, 0.1, 50)
    set_value(cells[2], {"metric": "kept"}, 0.9, 50)
    of_five, of_eight = map_view(_table(tmp_path, *cells[1:])).families
    for one, other in zip(of_five.panels, of_eight.panels, strict=True):
        assert one.limits == other.limits
    assert of_five.panels[0].limits == (0.0, 0.9)
    with_empty = map_view(_table(tmp_path, *cells)).families  # a baseline alone sets no scale
    assert {family.panels[0].limits[1] for family in with_empty if len(family.rows)} >= {0.9}


def test_a_row_says_its_settings_within_its_width_or_by_a_note_in_full(tmp_path):
    cells = [
        cell(clip_norm=c, more=f"{value}{c}", **{f"config.{key}": value for key in MANY})
        for value in ("usual", "unusual")
        for c in (0.5, 1.0)
    ]
    view = map_view(_table(tmp_path, *cells))
    details = [row.detail for family in view.families for row in family.rows]
    assert max(width(detail, style.SMALL) for detail in details) <= LONGEST
    for number, value in ((1, "unusual"), (2, "usual")):
        note = f"[{number}] " + ", ".join(f"{key}={value}" for key in sorted(MANY))
        assert note in view.notes
        assert sum(f"[{number}]" in detail for detail in details) == 2
    assert len(view.notes) == 2
    drawn = figure(_table(tmp_path, *cells))
    assert _texts(drawn, "notes") == [" ".join(view.notes)]


def test_the_rarest_setting_is_the_one_that_is_left_in_a_short_text():
    common, rare = "relation=add_or_remove_one", "telemetry=a_rather_long_word"
    notes = Notes({common: 9, rare: 1, "optim.lr_scale=by_norm": 9})
    short = notes.short((common, "optim.lr_scale=by_norm", rare), "2 seeds")
    assert short.startswith(rare)
    assert short.endswith("… [1], 2 seeds")
    assert notes.in_full() == (f"[1] {common}, optim.lr_scale=by_norm, {rare}",)


def test_one_word_that_is_too_long_is_cut_and_noted():
    notes = Notes({})
    word = "clip.norms=" + "0123456789" * 9
    assert width(notes.short((word,), ""), style.SMALL) <= LONGEST
    assert notes.in_full() == (f"[1] {word}",)


def test_short_settings_need_no_note():
    notes = Notes({})
    assert notes.short(("batch=64",), "1 seed") == "batch=64, 1 seed"
    assert notes.short((), "") == ""
    assert notes.in_full() == ()


def test_nothing_lies_outside_a_figure_of_many_families_and_notes(tmp_path):
    cells = [
        _of_class(name, rule=rule, **{f"config.{key}": f"{rule} of its kind" for key in MANY})
        for name in "358"
        for rule in ("flat", "adaptive", "a_rule_with_a_long_name")
    ]
    drawn = figure(_table(tmp_path, *cells))
    canvas, page = FigureCanvasAgg(drawn), drawn.bbox
    with style.drawing():
        for text in drawn.findobj(Text):
            if text.get_text() and text.get_visible():
                box = text.get_window_extent(canvas.get_renderer())
                assert page.x0 - 1 <= box.x0 <= box.x1 <= page.x1 + 1, text.get_text()
                assert page.y0 - 1 <= box.y0 <= box.y1 <= page.y1 + 1, text.get_text()
        (notes,) = [text for text in drawn.texts if text.get_gid() == "notes"]
        (caption,) = [text for text in drawn.texts if text.get_gid() == "caption"]
        lower = caption.get_window_extent(canvas.get_renderer())
        assert notes.get_window_extent(canvas.get_renderer()).y0 >= lower.y1
    left = min(axes.get_position().x0 for axes in drawn.axes if axes.get_title("left"))
    assert left < 0.5


def test_the_caption_says_what_a_cell_shares_with_its_baseline(tmp_path):
    own = baseline(**{"config.optim.lr": 0.1})
    drawn = figure(_table(tmp_path, own, cell(**{"config.optim.lr": 0.5})))
    (caption,) = _texts(drawn, "caption")
    assert (
        "share initial weights and test examples; batches and noise are each run's own" in caption
    )
    assert "Baselines have optim.lr=0.1; all other rows optim.lr=0.5" in caption
    alone = figure(_table(tmp_path / "alone", cell(baseline=False)))
    assert "share initial weights" not in _texts(alone, "caption")[0]
