from __future__ import annotations

import math

import pytest

from dpsgd.accounting import neighbouring_relation, poisson_gaussian
from dpsgd.accounting.bracket import Bracket
from dpsgd.accounting.library import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
from dpsgd.accounting.loss import loss_size

RELATIONS = [("add_or_remove_one", 1), ("replace_one", 2), ("replace_special", 1)]
every_relation = pytest.mark.parametrize(("relation", "sensitivity"), RELATIONS)


@every_relation
@pytest.mark.parametrize("sigma", [0.3, 1.0, 40.0])
def test_the_loss_of_a_gaussian_is_normal(relation, sensitivity, sigma):
    size = loss_size(GaussianDpEvent(sigma), neighbouring_relation(relation))
    mu = sensitivity / sigma
    assert size.mean == pytest.approx(mu**2 / 2, rel=1e-6)
    assert size.variance == pytest.approx(mu**2, rel=1e-6)
    assert size.gdp == pytest.approx(mu, rel=1e-6)


@every_relation
@pytest.mark.parametrize("q", [1e-3, 0.07, 1.0])
def test_many_quiet_draws_follow_the_central_limit(relation, sensitivity, q):
    size = loss_size(poisson_gaussian(q, 100.0, 400), neighbouring_relation(relation))
    assert size.steps == 400
    assert size.gdp == pytest.approx(q * sensitivity * math.sqrt(400) / 100.0, rel=1e-2)


def test_losses_add_up_over_parts_and_repeats():
    relation = neighbouring_relation("add_or_remove_one")
    draw, release = poisson_gaussian(0.1, 1.0, 1), GaussianDpEvent(2.0)
    both = loss_size(SelfComposedDpEvent(ComposedDpEvent([draw, release]), 4), relation)
    one, four = loss_size(draw, relation), loss_size(GaussianDpEvent(1.0), relation)
    assert both.variance == pytest.approx(4 * one.variance + four.variance)
    assert both.mean == pytest.approx(4 * one.mean + four.mean)
    assert both.span == max(one.span, four.span)


def root_of(function, start, tries):
    bracket, x = Bracket(), start
    for _ in range(tries):
        bracket.add(x, function(x))
        x = bracket.propose()
    return bracket


@pytest.mark.parametrize("start", [-3.0, 0.0, 5.0])
def test_a_straight_line_is_solved_at_once(start):
    bracket = root_of(lambda x: 2.0 - x, start, 8)
    assert min(abs(bracket.low - 2.0), abs(bracket.high - 2.0)) < 1e-9


@pytest.mark.parametrize("start", [-2.0, 6.0])
@pytest.mark.parametrize(
    "falling",
    [
        lambda x: math.expm1(6 * (1.7 - x)),
        lambda x: -math.expm1(6 * (x - 1.7)),
        lambda x: math.inf if x < 1.7 else -math.inf,
        lambda x: -((x - 1.7) ** 9),
        lambda x: 1.0 if x < 1.7 else -1e-9,
    ],
)
def test_the_bracket_closes_on_curves_and_jumps(falling, start):
    bracket = root_of(falling, start, 80)
    assert bracket.low <= 1.7 <= bracket.high
    assert bracket.width < 1e-6
