# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import pandas as pd
import pytest
from planted_cells import baseline, cell, key_of, slices, sweep
from planted_run_files import NOTHING, caption, marks, table_of, telemetry, texts, titled

from analysis.figures.norms import figure, wanted

PLACES = slices(["a"], ["head", "tail"])
BEFORE = {"norm_before_q10": 1, "norm_before_q25": 2, "norm_before_q50": 4, "norm_before_q75": 8,
          "norm_before_q90": 16}  # fmt: skip
AFTER = {"norm_after_q10": 0.1, "norm_after_q25": 0.2, "norm_after_q50": 0.4, "norm_after_q75": 0.5,
         "norm_after_q90": 0.5}  # fmt: skip
STATS = {**BEFORE, **AFTER, "threshold": 0.5}


def _cells(tmp_path, **more):
    return table_of(tmp_path, *sweep(["flat"], [0.5], 2, places=PLACES, **more))


def _telemetry(**more):
    keys = [key_of("flat", 0.5, seed) for seed in (0, 1)]
    return telemetry(keys, STATS, places=PLACES, **more)


def test_medians_before_and_after_are_drawn_for_every_slice(tmp_path):
    axes = titled(figure(_cells(tmp_path), _telemetry()), "last window, to step 50")
    assert [y for _, y in marks(axes, "before")] == [4.0] * len(PLACES)
    assert [y for _, y in marks(axes, "after")] == pytest.approx([0.4] * len(PLACES))
    assert {y for _, y in marks(axes, "C")} == {0.5}
    assert [text.get_text() for text in axes.texts if text.get_gid() == "n"] == ["100"] * 4


def test_head_and_tail_have_a_line_over_training(tmp_path):
    drawn = figure(_cells(tmp_path), _telemetry(steps=(25, 50, 75)))
    axes = titled(drawn, "over training")
    for end in ("head", "tail"):
        assert marks(axes, f"{end} before") == [(25, 4), (50, 4), (75, 4)]


def test_every_clip_group_has_a_panel(tmp_path):
    drawn = figure(_cells(tmp_path), _telemetry(groups=("all", "hidden", "out")))
    assert titled(drawn, "all groups")
    assert marks(titled(drawn, "hidden"), "tail after")


def test_norms_are_called_a_diagnostic(tmp_path):
    drawn = figure(_cells(tmp_path), _telemetry())
    assert "Norms: diagnostic, not private" in caption(drawn)
    assert "lr_scale=by_norm" in caption(drawn)


def test_without_telemetry_the_panels_say_why_they_are_empty(tmp_path):
    drawn = figure(_cells(tmp_path), NOTHING["telemetry"])
    said = texts(drawn, "why empty")
    assert len([text for text in said if "no raw norms" in text]) == 3
    assert len([text for text in said if "left no gradients.parquet" in text]) == 1
    assert len(said) == 4


def _units(**more):
    """Two looks at four units of each run: a head, a tail, one of neither, one without a norm."""
    parts = [
        pd.DataFrame({
            "run_key": key_of("flat", 0.5, seed), "step": step,
            "side": ["head", "tail", None, "head"],
            "threshold": 0.5, "norm_before": [0.2 * step, 8.0 * step, 1.0 * step, 0.0],
            "norm_after": [0.2, 0.5, 0.5, 0.0],
        })
        for seed in (0, 1) for step in (1, 2)
    ]  # fmt: skip
    return pd.concat([*parts, parts[0].assign(run_key="of another cell")])


def test_single_units_are_drawn_at_the_last_look_with_the_threshold(tmp_path):
    drawn = figure(_cells(tmp_path), _telemetry(), _units())
    axes = titled(drawn, "single units")
    assert marks(axes, "head") == [(0.4, 0.2)] * 2
    assert marks(axes, "tail") == [(16, 0.5)] * 2
    assert marks(axes, "neither") == [(2, 0.5)] * 2
    assert marks(axes, "tail median") == [(16, 0.5)]
    assert {y for _, y in marks(axes, "C")} == {0.5}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert texts(drawn, "smaller") == []
    told = caption(drawn)
    assert "single units at step 2" in told
    assert "n a run: 1 of the head, 1 of the tail; 2 runs in all" in told
    assert "diagnostic, not private" in told


def test_units_that_hardly_move_anything_are_counted_and_not_drawn(tmp_path):
    tiny = _units()
    tiny.loc[tiny["side"] == "head", ["norm_before", "norm_after"]] = 1e-9
    drawn = figure(_cells(tmp_path), _telemetry(), tiny)
    assert texts(drawn, "smaller") == ["4 of 8 smaller"]
    assert titled(drawn, "single units").get_xlim()[0] > 1e-4


def test_a_cell_without_a_tail_or_a_threshold_is_drawn_all_the_same(tmp_path):
    bare = _units().assign(side=None, threshold=float("inf"))
    axes = titled(figure(_cells(tmp_path), _telemetry(), bare), "single units")
    assert marks(axes, "C") == marks(axes, "tail") == []
    assert len(marks(axes, "neither")) == 6


def test_norms_of_zero_do_not_end_the_figure(tmp_path):
    stats = dict.fromkeys(STATS, 0.0) | {"threshold": float("inf")}
    found = telemetry([key_of("flat", 0.5, 0)], stats, places=PLACES)
    assert figure(_cells(tmp_path), found)


def test_telemetry_is_wanted_of_private_cells_only(tmp_path):
    assert sorted(wanted(_cells(tmp_path))) == [key_of("flat", 0.5, s) for s in (0, 1)]
    assert wanted(table_of(tmp_path / "b", baseline(), cell(mechanism="clip_only"))) == []
