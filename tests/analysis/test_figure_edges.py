"""What every figure must survive, and what it must say."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from planted_cells import baseline, cell, key_of, set_value, slices, sweep
from planted_run_files import NOTHING, ODD, caption, ledger, predictions, table_of, telemetry, texts

from analysis import schema, style
from analysis.drawing import _OF_FILES, FIGURES, figures
from analysis.drawing import _OF_TABLE as OF_TABLE
from analysis.figures.map import figure as map_figure

ODD_PLACES = slices(ODD)


def _diagnostics(seeds=2, **more):
    kinds = ("clip_only", "noise_only")
    return [cell(seed=s, mechanism=m, epsilon_target=3.0, **more) for m in kinds
            for s in range(seeds)]  # fmt: skip


def _absent():
    cells = [*sweep(["flat"], [0.5, 1.0], 2), *_diagnostics()]
    for content in cells:
        set_value(content, {"slice": "5"}, None, 0)
        set_value(content, {"slice": "7", "split": "test"}, 1.0, 1)
    return cells


def _nothing():
    cells = [*sweep(["flat"], [1.0], 2), *_diagnostics()]
    for content in cells:
        set_value(content, {}, None, 0)
    return cells


CASES = {
    "odd names": lambda: [*sweep(["flat", "per_layer"], [0.5, 1.0], 2, places=ODD_PLACES),
                          *_diagnostics(places=ODD_PLACES)],
    "absent class, one example": _absent,
    "every value missing": _nothing,
    "one seed": lambda: [*sweep(["flat"], [1.0], 1), *_diagnostics(1)],
    "one cell": lambda: [cell(baseline=False)],
    "no private cell": lambda: [baseline(), *_diagnostics()],
    "one slice": lambda: sweep(["flat"], [1.0], 2, places=slices([], [])),
    "many rules, no threshold": lambda: [
        *sweep([f"rule_{i:02}" for i in range(14)], [0.1, 1.0], 1),
        *(cell("without", None, s) for s in (0, 1)),
    ],
    "many slices": lambda: sweep(["flat"], [1.0], 2, places=slices([f"l{i}" for i in range(60)])),
}  # fmt: skip


def _draw(name, table, files=None):
    if name in OF_TABLE:
        return OF_TABLE[name](table)
    module = _OF_FILES[name]
    return module.figure(table, (files or NOTHING)[module.READS])


def _files(places):
    names = [name for kind, name in places if kind == "label"]
    keys = [key_of(rule, norm, seed) for rule in ("flat", "per_layer") for norm in (0.5, 1.0)
            for seed in (0, 1)]  # fmt: skip
    stats = dict.fromkeys(schema.STATS_BY_SLICE, 0.5) | dict.fromkeys(schema.STATS_OF_BATCH, 0.5)
    classes = list(range(len(names)))
    return {
        "telemetry": telemetry(keys, stats, places=places, groups=("all", "猫", "$a$")),
        "predictions": predictions(dict.fromkeys(keys, classes), classes, label=names,
                                   rarity=["tail"] * len(names)),
        "ledgers": ledger(keys[0], pld=3.0, gdp=2.0),
    }  # fmt: skip


def _inside(drawn, most=0.01):
    canvas = FigureCanvasAgg(drawn)
    with style.drawing():
        box = drawn.get_tightbbox(canvas.get_renderer())  # in inches, of what is drawn only
    wide, high = drawn.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= wide + most
    assert box.y1 <= high + 0.01


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("case", CASES)
def test_nothing_lies_outside_the_page(tmp_path, name, case):
    _inside(_draw(name, table_of(tmp_path, *CASES[case]())))


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("many")])
def test_the_map_is_drawn_of_all_of_it_too(tmp_path, case):
    drawn = map_figure(table_of(tmp_path, *CASES[case]()))
    _inside(drawn, most=0.03)  # a wrapped line may be longer by a hair than its measure
    assert "Kept" in {axes.get_title(loc="left")[3:] for axes in drawn.axes}


@pytest.mark.parametrize("name", FIGURES)
def test_odd_names_are_drawn_as_they_are_and_letters_can_be_read(tmp_path, name):
    drawn = _draw(name, table_of(tmp_path, *CASES["odd names"]()), _files(ODD_PLACES))
    _inside(drawn)
    said = [text for text in drawn.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in said) >= style.TEXT
    assert not any(text.get_parse_math() for text in said if "$" in text.get_text())
    if texts(drawn, "slice"):
        assert {"NA", "$y$", "(empty)"} <= set(texts(drawn, "slice"))
        assert any("猫和狗" in text.replace(" ", "") for text in texts(drawn, "slice"))


@pytest.mark.parametrize("name", FIGURES)
def test_every_caption_says_epsilon_delta_unit_accountant_and_learning_rate(tmp_path, name):
    said = caption(_draw(name, table_of(tmp_path, *sweep(["flat"], [0.5, 1.0], 2))))
    assert "ε = 3 (PLD), δ = 1e-4, unit record, neighbours by add or remove one" in said
    assert "lr_scale=by_norm" in said
    assert "diagnostic, not private" in said


def test_slices_without_room_are_counted(tmp_path):
    table = table_of(tmp_path, *CASES["many slices"]())
    assert "41 more slices have no room" in caption(_draw("stability", table))


def test_all_figures_are_drawn_without_any_file_of_the_runs(tmp_path):
    table = table_of(tmp_path, *sweep(["flat"], [1.0], 2))
    assert [drawn.name for drawn in figures(table, tmp_path)] == [
        name
        for name in FIGURES
        if name != "memorisation"  # which is of cells with an audit
    ]
