from __future__ import annotations

import math
from dataclasses import fields

import pytest
from accountants import ACCOUNTANTS, CONFIGS
from dp_accounting import get_epsilon_gaussian
from omegaconf import OmegaConf

from dpsgd.accounting import PLD, RDP, neighbouring_relation, no_privacy, pld, poisson_gaussian
from dpsgd.accounting.library import (
    ComposedDpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
    default_orders,
)
from dpsgd.accounting.loss import loss_size
from dpsgd.errors import ConfigError

ADD_REMOVE, REPLACE, ZERO_OUT = "add_or_remove_one", "replace_one", "replace_special"
Q = 256 / 3636
every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_yaml_holds_every_field_and_says_what_it_is(path):
    config = OmegaConf.load(path)
    accountant = ACCOUNTANTS[path.stem]
    assert set(config) - {"_target_"} == {field.name for field in fields(accountant)}
    assert accountant.name == path.stem
    assert path.read_text(encoding="utf-8").startswith("# ")


@every_accountant
def test_more_steps_cost_more(accountant):
    costs = [
        accountant.epsilon(poisson_gaussian(Q, 4.0, steps), ADD_REMOVE, 1e-4)
        for steps in (1, 2, 10, 100, 101, 1000)
    ]
    assert costs == sorted(costs)
    assert len(set(costs)) == len(costs)


@every_accountant
def test_more_noise_costs_less(accountant):
    costs = [
        accountant.epsilon(poisson_gaussian(Q, sigma, 400), ADD_REMOVE, 1e-4)
        for sigma in (1.5, 1.51, 6.0, 40.0)
    ]
    assert costs == sorted(costs, reverse=True)


@every_accountant
def test_int_sigma_is_float_sigma(accountant):
    whole, real = (
        accountant.epsilon(poisson_gaussian(Q, s, 10), ADD_REMOVE, 1e-4) for s in (4, 4.0)
    )
    assert whole == real


def test_int_sigma_of_a_hand_made_event_is_float_sigma():
    def epsilon(sigma):
        pair = ComposedDpEvent([GaussianDpEvent(sigma), GaussianDpEvent(sigma)])
        return ACCOUNTANTS["rdp"].epsilon(PoissonSampledDpEvent(Q, pair), ADD_REMOVE, 1e-4)

    assert epsilon(2) == epsilon(2.0)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 20.0])
@pytest.mark.parametrize(
    ("relation", "sensitivity"), [(ADD_REMOVE, 1), (REPLACE, 2), (ZERO_OUT, 1)]
)
def test_pld_of_a_plain_gaussian_is_exact_and_not_below(relation, sensitivity, sigma, delta):
    exact = get_epsilon_gaussian(sigma / sensitivity, delta)
    epsilon = ACCOUNTANTS["pld"].epsilon(GaussianDpEvent(sigma), relation, delta)
    assert exact * (1 - 1e-6) <= epsilon <= exact * (1 + 1e-4)


@every_accountant
@pytest.mark.parametrize("sigma", [0.2, 1.0, 20.0, 1000.0])
def test_many_small_gaussians_cost_at_least_the_one_they_are(accountant, sigma):
    steps = 10_000
    event = poisson_gaussian(1.0, sigma * math.sqrt(steps), steps)
    exact = get_epsilon_gaussian(sigma, 1e-5)
    epsilon = accountant.epsilon(event, ADD_REMOVE, 1e-5)
    assert exact * (1 - 1e-4) <= epsilon
    assert accountant.name != "pld" or epsilon <= exact * 1.003


@every_accountant
def test_zero_out_costs_what_add_or_remove_does(accountant):
    event = poisson_gaussian(Q, 4.0, 100)
    costs = [accountant.epsilon(event, relation, 1e-4) for relation in (ADD_REMOVE, ZERO_OUT)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


@every_accountant
@pytest.mark.parametrize("event", [no_privacy(), poisson_gaussian(Q, 0.0, 3)], ids=["none", "σ=0"])
def test_no_noise_is_infinite_epsilon(accountant, event):
    assert accountant.epsilon(event, ADD_REMOVE, 1e-4) == math.inf
    both = ComposedDpEvent([poisson_gaussian(Q, 5.0, 3), event])
    assert accountant.epsilon(both, ADD_REMOVE, 1e-4) == math.inf


@every_accountant
def test_zero_steps_cost_nothing(accountant):
    assert accountant.epsilon(poisson_gaussian(Q, 1.0, 0), ADD_REMOVE, 1e-4) == 0


@pytest.mark.parametrize(
    "event", [poisson_gaussian(Q, 1.0, 3), GaussianDpEvent(1.0)], ids=["q", "1"]
)
def test_rdp_refuses_replace_one_and_names_pld(event):
    with pytest.raises(ConfigError, match="accountant=pld") as caught:
        ACCOUNTANTS["rdp"].epsilon(event, REPLACE, 1e-4)
    assert caught.value.key == "accountant"


def test_an_event_that_an_accountant_does_not_know_is_a_config_error():
    pair = ComposedDpEvent([GaussianDpEvent(1.0), GaussianDpEvent(1.0)])
    with pytest.raises(ConfigError, match="cannot account for this event"):
        ACCOUNTANTS["pld"].epsilon(PoissonSampledDpEvent(Q, pair), ADD_REMOVE, 1e-4)


@every_accountant
@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf])
def test_delta_outside_its_range_is_refused(accountant, delta):
    with pytest.raises(ConfigError, match="delta"):
        accountant.epsilon(poisson_gaussian(Q, 1.0, 3), ADD_REMOVE, delta)


@every_accountant
@pytest.mark.parametrize("relation", ["replace", "", None])
def test_unknown_relation_is_refused(accountant, relation):
    with pytest.raises(ConfigError, match="relation"):
        accountant.epsilon(poisson_gaussian(Q, 1.0, 3), relation, 1e-4)


def test_a_delta_below_the_rounding_error_is_refused():
    with pytest.raises(ConfigError, match="at least 1e-08"):
        ACCOUNTANTS["pld"].epsilon(poisson_gaussian(1e-4, 1.0, 10**6), ADD_REMOVE, 1e-9)


@pytest.mark.parametrize("sigma", [0.15, 0.05])
def test_huge_losses_are_bounded_from_above_in_bounded_time(sigma):
    event = poisson_gaussian(1.0, sigma * math.sqrt(100), 100)
    exact = get_epsilon_gaussian(sigma, 1e-5)
    assert exact <= ACCOUNTANTS["pld"].epsilon(event, ADD_REMOVE, 1e-5) <= exact * 1.001


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.3, 300.0])
@pytest.mark.parametrize("steps", [1, 10**4])
def test_no_noise_asks_for_more_points_than_memory_holds(monkeypatch, sigma, steps):
    grids = []
    monkeypatch.setattr(pld, "pld_epsilon", lambda *args: grids.append(args[-1]) or 1.0)
    event = poisson_gaussian(Q, sigma, steps)
    ACCOUNTANTS["pld"].epsilon(event, ADD_REMOVE, 1e-5)
    size = loss_size(event, neighbouring_relation(ADD_REMOVE))
    assert size.span / grids[0] <= 2**17 + 1
    assert 17 * math.sqrt(size.variance) / grids[0] <= 2**22 + 1


def test_losses_beyond_every_grid_are_refused():
    with pytest.raises(ConfigError, match="accountant=rdp has no limit"):
        ACCOUNTANTS["pld"].epsilon(poisson_gaussian(Q, 1e-3, 100), ADD_REMOVE, 1e-5)


def test_a_truncated_batch_costs_more_the_more_often_it_overflows():
    def epsilon(cap):
        step = TruncatedSubsampledGaussianDpEvent(3636, Q, cap, 1.9491482)
        return ACCOUNTANTS["pld"].epsilon(SelfComposedDpEvent(step, 420), ADD_REMOVE, 1e-4)

    assert [epsilon(cap) for cap in (256, 300)] == pytest.approx([9.88, 3.08], rel=2e-3)


def test_a_mixture_of_one_record_is_a_poisson_draw():
    step = MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.9, 0.1, 0.0])
    epsilon = PLD(name="pld", grid=1e-3).epsilon(SelfComposedDpEvent(step, 100), ADD_REMOVE, 1e-6)
    poisson = ACCOUNTANTS["pld"].epsilon(poisson_gaussian(0.1, 2.0, 100), ADD_REMOVE, 1e-6)
    assert epsilon == pytest.approx(poisson, rel=1e-3)


@pytest.mark.parametrize("grid", [0.0, -1e-4, math.nan, math.inf])
def test_a_grid_that_is_no_spacing_is_refused(grid):
    with pytest.raises(ConfigError, match="grid"):
        PLD(name="pld", grid=grid)


@pytest.mark.parametrize("orders", [(), (1.0,), (0.5, 2.0), (math.nan,)])
def test_orders_at_or_below_one_are_refused(orders):
    with pytest.raises(ConfigError, match="orders"):
        RDP(name="rdp", orders=orders)


def test_the_default_orders_reach_where_short_lists_cannot():
    event, delta = poisson_gaussian(1e-3, 100.0, 100), 1e-7
    library = RDP(name="rdp", orders=default_orders()).epsilon(event, ADD_REMOVE, delta)
    ours = ACCOUNTANTS["rdp"].epsilon(event, ADD_REMOVE, delta)
    assert ACCOUNTANTS["pld"].epsilon(event, ADD_REMOVE, delta) <= ours < library / 5


@pytest.mark.parametrize("sigma", [8.0, 12.0, 16.0, 24.0])
def test_more_orders_never_raise_epsilon_and_change_none_that_was_dense(sigma):
    event = poisson_gaussian(Q, sigma, 426)
    library = RDP(name="rdp", orders=default_orders()).epsilon(event, ADD_REMOVE, 1e-4)
    ours = ACCOUNTANTS["rdp"].epsilon(event, ADD_REMOVE, 1e-4)
    assert library * 0.97 <= ours <= library
