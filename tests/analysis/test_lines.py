"""In which order the rules of a figure stand, for there may be no room for all of them."""

from __future__ import annotations

import pytest
from planted_cells import cell, set_value
from planted_run_files import table_of

from analysis.lines import family

VALIDATED = {"split": "validation", "slice_kind": "all", "slice": "all", "metric": "accuracy"}


def rated(rule, norm, score, **settings):
    more = "".join(f"{value}" for value in settings.values())
    named = {f"config.clip.{key}": value for key, value in settings.items()}
    made = cell(rule, norm, more=more, **named)
    set_value(made, VALIDATED, score, 100)
    return made


@pytest.fixture
def lines(tmp_path):
    quantiles = [rated("adaptive", 0.1, s, quantile=q) for q, s in ((0.2, 0.8), (0.5, 0.95))]
    ladder = [rated("per_layer", norm, score) for norm, score in ((0.1, 0.5), (1.0, 0.6))]
    single = [rated("psac", 1.0, 0.7), rated("nsgd", 1.0, None), rated("flat", 1.0, 0.1)]
    return family(table_of(tmp_path, *quantiles, *ladder, *single))


def test_every_rule_comes_before_the_second_settings_of_one(lines):
    assert [line.name for line in lines.lines] == [
        "flat", "per_layer", "adaptive, clip.quantile=0.5", "psac", "nsgd",
        "adaptive, clip.quantile=0.2",
    ]  # fmt: skip


def test_the_first_are_a_family_of_their_own(lines):
    assert [line.rule for line in lines.first(2).lines] == ["flat", "per_layer"]
    assert lines.first(2).table is lines.table
