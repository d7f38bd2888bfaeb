# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import pandas as pd
import pytest
from planted_cells import baseline, cell, key_of, sweep
from planted_run_files import NOTHING, caption, marks, table_of, telemetry, texts, titled

from analysis.figures.updates import figure, wanted

STATS = {"cosine": 0.6, "relative_length": 0.1, "noise_norm": 2.0, "snr": 0.05}


def _table(tmp_path, norms=(1.0,)):
    return table_of(tmp_path, *sweep(["flat"], list(norms), 2))


def _telemetry(norms=(1.0,), **more):
    parts = [
        telemetry([key_of("flat", norm, seed)], {**STATS, "cosine": 0.5 + 0.1 * seed}, **more)
        for norm in norms
        for seed in (0, 1)
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    ("title", "value"),
    [("Direction", 0.55), ("Length", 0.1), ("Noise", 2.0), ("Signal to noise", 0.05)],
)
def test_a_line_is_the_mean_over_seeds_at_every_step(tmp_path, title, value):
    drawn = figure(_table(tmp_path), _telemetry())
    (axes,) = [a for a in drawn.axes if a.get_title(loc="left")[4:] == title]
    points = marks(axes, "flat")
    assert [x for x, _ in points] == [25, 50]
    assert [y for _, y in points] == pytest.approx([value, value])


def test_means_over_training_stand_against_the_threshold(tmp_path):
    norms = (0.5, 1.0, 3.0)
    drawn = figure(_table(tmp_path, norms), _telemetry(norms))
    assert [x for x, _ in marks(titled(drawn, "Direction, by C"), "flat")] == list(norms)


def test_layers_have_rows_where_the_telemetry_has_them(tmp_path):
    drawn = figure(_table(tmp_path), _telemetry(groups=("all", "hidden")))
    assert marks(titled(drawn, "a2  Direction"), "flat")
    assert texts(drawn, "row") == ["all layers", "hidden"]
    assert "no layers of their own" not in caption(drawn)
    flat = figure(_table(tmp_path), _telemetry())
    assert texts(flat, "row") == []
    assert "no layers of their own" in caption(flat)


def test_of_many_layers_the_first_the_last_and_some_between_are_drawn(tmp_path):
    layers = [f"block{k}.conv" for k in range(9)]
    drawn = figure(_table(tmp_path), _telemetry(groups=("all", *layers)))
    assert texts(drawn, "row") == ["all layers", *(layers[k] for k in (0, 3, 5, 8))]
    assert "by layer (9, of which 4 are drawn)" in caption(drawn)


def test_raw_gradients_are_called_a_diagnostic(tmp_path):
    said = caption(figure(_table(tmp_path), _telemetry()))
    assert "raw gradients: diagnostic, not private" in said
    assert "ε = 3 (PLD), δ = 1e-4, unit record" in said


def test_without_telemetry_every_panel_says_so(tmp_path):
    drawn = figure(_table(tmp_path), NOTHING["telemetry"])
    assert len(texts(drawn, "why empty")) == len(drawn.axes)


def test_a_diagnostic_without_noise_leaves_its_panels_empty(tmp_path):
    drawn = figure(_table(tmp_path), telemetry([key_of("flat", 1.0, 0)], {"cosine": 0.5}))
    assert any("not in the telemetry" in text for text in texts(drawn, "why empty"))


def test_telemetry_is_wanted_of_every_threshold_of_the_lines(tmp_path):
    table = table_of(tmp_path, *sweep(["flat"], [0.5, 1.0], 2), cell(mechanism="clip_only"))
    assert len(wanted(table)) == 4
    assert baseline()["run_key"] not in wanted(table)
