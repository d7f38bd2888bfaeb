# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

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
    assert all("no raw norms" in text for text in texts(drawn, "why empty"))
    assert len(texts(drawn, "why empty")) == 3


def test_norms_of_zero_do_not_end_the_figure(tmp_path):
    stats = dict.fromkeys(STATS, 0.0) | {"threshold": float("inf")}
    found = telemetry([key_of("flat", 0.5, 0)], stats, places=PLACES)
    assert figure(_cells(tmp_path), found)


def test_telemetry_is_wanted_of_private_cells_only(tmp_path):
    assert sorted(wanted(_cells(tmp_path))) == [key_of("flat", 0.5, s) for s in (0, 1)]
    assert wanted(table_of(tmp_path / "b", baseline(), cell(mechanism="clip_only"))) == []
