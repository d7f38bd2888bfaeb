"""The benchmark of accounted telemetry, at a size for every day."""

import pytest

from benchmarks.telemetry_cost import lines, summary
from benchmarks.telemetry_pairs import pair

SMALL = {"data": "digits", "model": "logistic", "batch": 128, "steps": 30, "clip.norm": 3.0}
SEEDS = 3


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    return summary([pair(seed, SMALL, cache) for seed in range(SEEDS)]) | {"ms_a_step": {}}


def test_the_tail_loses_little_to_counts_inside_epsilon(found):
    # Pairs share draws and noise, which the counts make 2.6 % louder.
    assert abs(found["loss_points"]["mean"]) <= 2
    assert found["loss_points"]["lo"] <= found["loss_points"]["mean"] <= found["loss_points"]["hi"]


def test_intervals_hold_the_true_fraction_in_nine_of_ten_slices(found):
    for part in ("training", "windows"):
        assert found[part]["intervals"] >= 13 * SEEDS
        assert found[part]["hold"] >= 0.9


def test_larger_slices_are_known_better(found):
    slices = found["slices"]
    assert slices["all all"]["half_width"] < slices["label 3"]["half_width"]


def test_the_table_fits_a_terminal(found):
    table = lines(found | {"ms_a_step": {"off": 1.234, "accounted": 1.345}})
    assert max(map(len, table)) <= 80
    assert len([line for line in table if line.startswith("label")]) == 10
