from __future__ import annotations

import itertools
import json
import math
from importlib import resources

import pytest
import torch

from analysis.page.lab import (
    DELTA,
    POINTS,
    RECORDS,
    RULES,
    WEIGHTS,
    Cloud,
    Setting,
    clipped,
    noise_deviation,
    normals,
    readouts,
    rough_epsilon,
    synthetic,
    uniforms,
)
from benchmarks.lab_epsilon import BATCHES, MOST, SIGMAS, STEPS, certified, rounded_up
from dpsgd.accounting.estimates import small_q
from dpsgd.clipping.automatic import Automatic
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.psac import PSAC

SETTING = Setting("flat", 1.0, 1.0, 2000, 256, 0.05, 4.0, 1)


def _changed(**changes):
    return Setting(**{**SETTING.__dict__, **changes})


def _table():
    file = resources.files("analysis.page").joinpath("assets", "lab_epsilon.json")
    return json.loads(file.read_text(encoding="utf-8"))


def test_random_numbers_look_uniform_and_normal():
    drawn = list(itertools.islice(uniforms(1), 20_000))
    assert min(drawn) > 0
    assert max(drawn) < 1
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, abs=0.01)
    assert sum(x < 0.1 for x in drawn) / len(drawn) == pytest.approx(0.1, abs=0.01)
    normal = list(itertools.islice(normals(2), 20_000))
    assert sum(normal) / len(normal) == pytest.approx(0, abs=0.03)
    assert sum(x * x for x in normal) / len(normal) == pytest.approx(1, abs=0.04)


def test_share_and_strength_are_those_of_the_rare_group():
    cloud = synthetic(_changed(share=0.2, strength=6.0))
    own = [point for point, rare in zip(cloud.points, cloud.rare, strict=True) if rare]
    assert len(own) == 0.2 * POINTS
    assert sum(y for _, y in own) / len(own) == pytest.approx(6.0, abs=0.3)


@pytest.mark.parametrize("rule", RULES)
def test_no_gradient_is_longer_than_c_after_clipping(rule):
    after = clipped(synthetic(SETTING), rule, 0.7)
    assert max(math.hypot(*point) for point in after) <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize("rule", ["flat", "per_layer"])
def test_a_bound_above_every_norm_changes_nothing(rule):
    found = readouts(_changed(rule=rule, clip_norm=1e6), synthetic(SETTING))
    assert found["bias"] == 0
    assert found["kept_rare"] == found["kept_common"] == 1


def test_the_louder_group_loses_more_to_a_common_bound():
    found = readouts(_changed(clip_norm=0.5), synthetic(SETTING))
    assert found["kept_rare"] < found["kept_common"] / 2


def _of_project(rule, norms):
    state = rule.bind(Groups(("all",), (("w",),), (1,)), 1.0, 256.0)
    return rule.weights(torch.tensor(norms)[:, None], state, {})[:, 0]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("automatic", Automatic("automatic", "record", 0.7, "AUTO-S", 0.01)),
        ("psac", PSAC("psac", "record", 0.7, 0.1)),
    ],
)
def test_weights_are_those_of_the_project_s_rules(name, rule):
    norms = [0.01, 0.3, 0.7, 2.0, 50.0]
    ours = [WEIGHTS[name](norm, 0.7) for norm in norms]
    assert ours == pytest.approx(_of_project(rule, norms).tolist(), rel=1e-4)


def test_noise_is_sigma_c_over_batch_and_a_thousand_coordinates_have_root_of_that_more():
    setting = _changed(clip_norm=2.0, sigma=3.0, batch=64)
    assert noise_deviation(setting) == pytest.approx(3.0 * 2.0 / 64)
    found = readouts(setting, synthetic(setting))
    assert found["noise_norm"] == pytest.approx(noise_deviation(setting) * math.sqrt(1000))


def test_signal_over_noise_grows_with_the_root_of_the_steps():
    one = readouts(_changed(steps=100), synthetic(SETTING))["rare_after"]
    four = readouts(_changed(steps=400), synthetic(SETTING))["rare_after"]
    assert four == pytest.approx(2 * one)


def test_rough_epsilon_is_the_ledger_s_small_q_estimate():
    q = SETTING.batch / RECORDS
    estimate = small_q(q, SETTING.sigma, SETTING.steps, DELTA)
    assert rough_epsilon(SETTING) == pytest.approx(estimate, rel=1e-12)


def test_an_empty_cloud_has_no_numbers_but_noise_and_epsilon():
    found = readouts(SETTING, Cloud([], [], []))
    assert math.isnan(found["bias"])
    assert found["noise_norm"] > 0


def test_the_table_covers_every_stop_of_the_sliders_and_grows_as_it_must():
    table = _table()
    assert (table["sigmas"], table["batches"], table["steps"]) == (
        list(SIGMAS),
        list(BATCHES),
        list(STEPS),
    )
    filled = [
        [[MOST if e is None else e for e in row] for row in plane] for plane in table["epsilon"]
    ]
    for s, b, t in itertools.product(range(len(SIGMAS)), range(len(BATCHES)), range(len(STEPS))):
        here = filled[s][b][t]
        assert 0 < here <= MOST
        assert t == 0 or here >= filled[s][b][t - 1]
        assert b == 0 or here >= filled[s][b - 1][t]
        assert s == 0 or here <= filled[s - 1][b][t]


@pytest.mark.parametrize(("sigma", "batch", "steps"), [(1.0, 256, 2000), (4.0, 1024, 5000)])
def test_the_table_is_what_the_accountant_certifies(sigma, batch, steps):
    place = SIGMAS.index(sigma), BATCHES.index(batch), STEPS.index(steps)
    stored = _table()["epsilon"][place[0]][place[1]][place[2]]
    assert stored == certified(sigma, batch, steps)


@pytest.mark.parametrize("epsilon", [0.0104, 1.23456, 9.99951, 12.3401, 3.0])
def test_epsilon_is_never_rounded_down(epsilon):
    assert epsilon <= rounded_up(epsilon) <= epsilon * 1.0011
