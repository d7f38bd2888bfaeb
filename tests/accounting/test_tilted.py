"""The estimates that a search starts from, against exact values of plain Gaussians and draws."""

from __future__ import annotations

import math

import pytest
from accountants import ACCOUNTANTS
from scipy.stats import norm

from dpsgd.accounting import neighbouring_relation, no_privacy, poisson_gaussian
from dpsgd.accounting.library import GaussianDpEvent
from dpsgd.accounting.renyi import CANONNE, best_order
from dpsgd.accounting.tilted import log_delta

ADD_REMOVE = neighbouring_relation("add_or_remove_one")
REPLACE = neighbouring_relation("replace_one")


def exact(mu, epsilon):
    tail = norm.cdf(-epsilon / mu + mu / 2)
    return tail - math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))


@pytest.mark.parametrize("mu", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("steps", [1, 9, 10_000])
@pytest.mark.parametrize(("relation", "shift"), [(ADD_REMOVE, 1), (REPLACE, 2)], ids=["1", "2"])
def test_delta_of_gaussians_far_into_the_tail(mu, steps, relation, shift):
    event = poisson_gaussian(1.0, math.sqrt(steps) / mu, steps)
    for deviations in (1.0, 3.0, 6.0):
        epsilon = (shift * mu) ** 2 / 2 + deviations * shift * mu
        true = exact(shift * mu, epsilon)
        assert log_delta(event, relation, epsilon) == pytest.approx(math.log(true), abs=0.02)


@pytest.mark.parametrize(("q", "sigma"), [(0.1, 0.7), (1e-4, 0.5)])
@pytest.mark.parametrize("epsilon", [0.004, 1.0, 3.0])
def test_delta_of_one_draw_is_q_times_that_of_the_amplified_release(q, sigma, epsilon):
    true = q * exact(1 / sigma, math.log1p(math.expm1(epsilon) / q))
    found = log_delta(poisson_gaussian(q, sigma, 1), ADD_REMOVE, epsilon)
    assert found == pytest.approx(math.log(true), abs=0.02)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"),
    [(0.07, 4.0, 426, 1e-4), (1e-4, 0.8, 100_000, 1e-9), (1e-3, 0.3, 10, 1e-7)],
)
def test_delta_of_many_draws_is_that_of_pld(q, sigma, steps, delta):
    event = poisson_gaussian(q, sigma, steps)
    epsilon = ACCOUNTANTS["pld"].epsilon(event, "add_or_remove_one", delta)
    assert log_delta(event, ADD_REMOVE, epsilon) == pytest.approx(math.log(delta), abs=0.01)


def test_beyond_every_loss_there_is_no_delta():
    assert log_delta(poisson_gaussian(1e-3, 1.0, 1), ADD_REMOVE, 20.0) == -math.inf


@pytest.mark.parametrize(
    ("q", "sigma", "steps"), [(0.07, 4.0, 426), (0.01, 0.8, 50), (1.0, 9.0, 7)]
)
def test_the_best_order_gives_no_more_than_a_list_of_them(q, sigma, steps):
    event = poisson_gaussian(q, sigma, steps)
    epsilon, order = best_order(event, ADD_REMOVE, 1e-5, CANONNE)
    listed = ACCOUNTANTS["rdp"].epsilon(event, "add_or_remove_one", 1e-5)
    assert listed * 0.98 < epsilon < listed * (1 + 1e-6)
    assert order > 1


def test_the_best_order_of_a_gaussian_is_the_known_one():
    _, order = best_order(
        GaussianDpEvent(5.0), ADD_REMOVE, 1e-5, lambda a, d, t: d - math.log(t) / (a - 1)
    )
    assert order == pytest.approx(1 + math.sqrt(2 * 25 * math.log(1e5)), rel=1e-2)


def test_an_event_of_no_known_release_has_no_order():
    epsilon, order = best_order(no_privacy(), ADD_REMOVE, 1e-5, CANONNE)
    assert epsilon == math.inf
    assert math.isnan(order)
