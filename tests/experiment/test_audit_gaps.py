"""How slices of canaries are compared: kind with kind, whatever their numbers."""

from __future__ import annotations

import types

import numpy as np
import pytest

from analysis import schema
from dpsgd.experiment.coins import RANDOM, RARE, WRONG
from dpsgd.experiment.recorded import Losses, record_metrics
from dpsgd.slices import SliceTable

KIND = np.array([WRONG] * 40 + [RANDOM] * 40 + [RARE] * 20)
TAIL = np.array([False] * 80 + [True] * 20)


def measured(lost):
    """Canaries whose losses among 99 references from 1 to 99 are ``lost`` of their kind."""
    generator = np.random.default_rng(0)
    included = np.arange(100) % 2 == 0
    nll = np.array([lost[kind] for kind in KIND]) + generator.normal(0, 0.3, 100)
    nll = np.where(included, nll, 50 + 30 * generator.random(100))
    keys = (("all", "all"), ("rarity", "head"), ("rarity", "tail"))
    slices = SliceTable(keys, np.stack([np.ones(100, bool), ~TAIL, TAIL], axis=1))
    coins = types.SimpleNamespace(kind=KIND, included=included, slices=slices)
    references = {kind: np.arange(1.0, 100.0) for kind in (WRONG, RANDOM, RARE)}
    rows = record_metrics(Losses(coins, np.arange(100), nll, references), generator)
    return {(row["slice_kind"], row["slice"], row["metric"]): row for row in rows}


def test_random_inputs_are_of_no_slice_but_of_all():
    found = measured({WRONG: 30, RANDOM: 0, RARE: 30})
    assert found["all", "all", "exposure"]["n"] == 50
    assert found["rarity", "head", "exposure"]["n"] == 20
    assert found["rarity", "head", "membership_auc"]["n"] == 40
    assert found[schema.CANARY, RANDOM, "exposure"]["value"] > 6


def test_slices_that_are_remembered_alike_differ_by_nothing_whatever_random_inputs_do():
    found = measured({WRONG: 30, RANDOM: 0, RARE: 30})
    gap = found["rarity", "tail", "exposure_gap"]
    assert abs(gap["value"]) < 0.1
    assert gap["lo"] <= 0 <= gap["hi"]
    assert found[schema.CANARY, RARE, "exposure_gap"]["hi"] < 0  # kind against all other kinds


def test_a_tail_that_is_remembered_more_is_told_apart():
    found = measured({WRONG: 30, RANDOM: 0, RARE: 4})
    tail, head = (found["rarity", name, "exposure"]["value"] for name in ("tail", "head"))
    gap = found["rarity", "tail", "exposure_gap"]
    assert gap["value"] == pytest.approx(tail - head)
    assert 0 < gap["lo"] < gap["value"] < gap["hi"]
    assert found["rarity", "head", "exposure_gap"]["value"] == pytest.approx(-gap["value"])


def test_all_have_nobody_to_differ_from():
    assert ("all", "all", "exposure_gap") not in measured({WRONG: 30, RANDOM: 0, RARE: 30})
