"""The figure on memorisation: its marks are the cells' numbers, and what is missing is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted_audits import planted_audits
from planted_findings import planted
from planted_run_files import caption, marks, texts, titled

from analysis.audits import audits, bounds, left_out
from analysis.drawing import figures
from analysis.figures.memorisation import _Shown, figure
from analysis.lines import family

AUDITS = ("gradient", "canaries", "membership")
BEFORE = {"0": 6.0, "1": 6.0, "2": 6.0, "3": 9.0}


@pytest.fixture(scope="module")
def table():
    return planted_audits(np.random.default_rng(0), 3, before=BEFORE)


def test_marks_against_c_are_the_means_over_seeds_and_levels_the_baseline(table):
    drawn = figure(table)
    exposure = next(one for one in drawn.axes if one.get_title(loc="left").startswith("e "))
    rows = table.loc[(table["metric"] == "exposure") & (table["slice_kind"] == "all")]
    means = rows.groupby(["rule", "clip_norm"], dropna=False)["value"].mean()
    shown = sorted(y for _, y in marks(exposure, "all"))
    assert shown == pytest.approx(sorted(means["flat"]))
    levels = [line.get_ydata()[0] for line in exposure.lines if line.get_gid() == "baseline"]
    assert means["none"].iloc[0] == pytest.approx(levels[0])


def test_what_a_slice_lost_stands_above_what_is_left_of_its_exposure(table):
    drawn = figure(table)
    lost, exposure = titled(drawn, "Who paid"), titled(drawn, "exposure of its canaries")
    assert len(marks(lost, "per_layer")) == len(marks(exposure, "per_layer")) == 5
    recall = table.loc[(table["metric"] == "recall") & (table["split"] == "test")]
    means = recall.loc[recall["slice"] == "3"].groupby("rule")["value"].mean()
    fall = means["none"] - means["per_layer"]
    assert any(y == pytest.approx(fall) for _, y in marks(lost, "per_layer"))


def test_bounds_stand_below_the_line_of_what_is_certified(table):
    found = bounds(family(table))
    assert len(found) == 9
    assert (found["epsilon"] == 3.0).all()
    assert len(marks(titled(figure(table), "Bound and claim"), "bound canaries")) == 9


def test_it_says_that_it_is_a_diagnostic_with_n_delta_accountant_and_unit(table):
    words = caption(figure(table))
    for part in ("diagnostic, not private", "δ = 1e-4", "PLD", "unit record", "95 % interval"):
        assert part in words


def test_cells_without_an_audit_are_left_out_and_counted(table):
    half = table.assign(audit=table["audit"].where(table["rule"] != "per_layer"))
    half = half.loc[(half["split"] != "audit") | (half["rule"] != "per_layer")]
    assert left_out(family(half)) == "3 of 12 cells have no audit and are left out"
    assert "3 of 12 cells" in caption(figure(half))
    assert {line.rule for line in audits(family(half), "exposure", "canaries").lines} == {"flat"}


def test_without_any_audit_there_is_no_figure_and_drawn_alone_it_says_why(tmp_path):
    plain = planted(np.random.default_rng(0), 2)[0]
    assert list(figures(plain, tmp_path, ["memorisation"])) == []
    assert any("audit=canaries" in text for text in texts(figure(plain)))


def test_no_two_entries_of_its_legend_share_a_mark_or_a_colour_and_hollow_is_the_baseline(table):
    shown = _Shown.of(family(table))
    found = pd.concat([shown.bounds.assign(audit=name) for name in AUDITS])
    every = {one.name: one.looks for one in replace(shown, bounds=found).entries}
    hollow = [name for name, looks in every.items() if "markerfacecolor" in looks]
    assert hollow == ["hollow: baseline"]
    entries = [looks for name, looks in every.items() if looks["marker"] and name not in hollow]
    for what in ("marker", "color"):
        own = [looks[what] for looks in entries]
        assert len(set(own)) == len(own)
