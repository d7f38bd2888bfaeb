from __future__ import annotations

import math

import pytest
from accountants import ACCOUNTANTS, Counting

from dpsgd.accounting import PLD, largest_steps, poisson_gaussian
from dpsgd.accounting.calibration import TOLERANCE, solve_noise
from dpsgd.accounting.library import ComposedDpEvent, GaussianDpEvent
from dpsgd.errors import ConfigError

ADD_REMOVE, REPLACE, ZERO_OUT = "add_or_remove_one", "replace_one", "replace_special"
N, BATCH, STEPS, DELTA = 3636, 256, 426, 1e-4
every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)


def event(sigma, steps=STEPS):
    return poisson_gaussian(BATCH / N, sigma, steps)


@every_accountant
@pytest.mark.parametrize("target", [0.01, 0.1, 1, 3, 8, 100])
def test_the_solved_noise_spends_the_target_and_never_more(accountant, target):
    counting = Counting(accountant)
    sigma = solve_noise(counting, event, ADD_REMOVE, target, DELTA, accountant.excess)
    spent = accountant.epsilon(event(sigma), ADD_REMOVE, DELTA)
    assert target * (1 - TOLERANCE) <= spent <= target
    assert counting.calls <= 5


CORNERS = [
    (0.01, 1e-4, 100, 1e-10), (0.1, 1e-4, 100_000, 1e-5), (0.1, 1e-3, 1000, 1e-10),
    (1.0, 1e-4, 10_000, 1e-5), (8.0, 1e-3, 1, 1e-5), (0.5, 1e-4, 10, 1e-5),
    (100.0, 1e-4, 10, 1e-5), (100.0, 1.0, 100_000, 1e-8), (30.0, 1e-3, 1, 1e-10),
]  # fmt: skip
"""Where ε as a function of σ bends most: rare draws, few steps, orders that cease to count."""


@pytest.mark.parametrize("name", ["rdp", "moments"])
@pytest.mark.parametrize("corner", CORNERS, ids=str)
def test_five_evaluations_are_enough_in_every_corner(name, corner):
    target, q, steps, delta = corner
    counting = Counting(ACCOUNTANTS[name])

    def make(sigma):
        return poisson_gaussian(q, sigma, steps)

    solve_noise(counting, make, ADD_REMOVE, target, delta, ACCOUNTANTS[name].excess)
    assert counting.calls <= 5


@pytest.mark.parametrize("corner", CORNERS[4::2], ids=str)
def test_pld_is_met_at_once_for_the_estimate_is_of_the_same_delta(corner):
    target, q, steps, delta = corner
    counting = Counting(ACCOUNTANTS["pld"])
    solve_noise(counting, lambda s: poisson_gaussian(q, s, steps), ADD_REMOVE, target, delta)
    assert counting.calls <= 3


@pytest.mark.parametrize("relation", [REPLACE, ZERO_OUT])
def test_the_solved_noise_is_for_the_relation_asked(relation):
    pld = ACCOUNTANTS["pld"]
    sigma = pld.calibrate(event, relation, 1.0, DELTA)
    assert 1 - TOLERANCE <= pld.epsilon(event(sigma), relation, DELTA) <= 1


@pytest.mark.parametrize(("name", "steps"), [("rdp", 1), ("rdp", 30_000), ("pld", 30_000)])
def test_very_few_and_very_many_steps_are_solved(name, steps):
    accountant = ACCOUNTANTS[name]
    sigma = accountant.calibrate(lambda s: event(s, steps), ADD_REMOVE, 0.1, DELTA)
    spent = accountant.epsilon(event(sigma, steps), ADD_REMOVE, DELTA)
    assert 0.1 * (1 - TOLERANCE) <= spent <= 0.1


def test_a_target_of_a_thousand_neither_hangs_nor_overshoots():
    pld = PLD(name="pld", grid=1e-2)
    sigma = pld.calibrate(event, ADD_REMOVE, 1000, DELTA)
    assert 999 <= pld.epsilon(event(sigma), ADD_REMOVE, DELTA) <= 1000


def test_only_what_other_releases_leave_is_spent():
    rdp = ACCOUNTANTS["rdp"]

    def with_a_fixed_release(sigma):
        return ComposedDpEvent([GaussianDpEvent(5.0), event(sigma)])

    sigma = rdp.calibrate(with_a_fixed_release, ADD_REMOVE, 2.0, DELTA)
    spent = rdp.epsilon(with_a_fixed_release(sigma), ADD_REMOVE, DELTA)
    assert 2.0 * (1 - TOLERANCE) <= spent <= 2.0


def test_a_target_that_other_releases_exceed_is_refused():
    def with_a_costly_release(sigma):
        return ComposedDpEvent([GaussianDpEvent(0.5), event(sigma)])

    with pytest.raises(ConfigError, match="no noise multiplier meets this target"):
        ACCOUNTANTS["rdp"].calibrate(with_a_costly_release, ADD_REMOVE, 2.0, DELTA)


class Jumping:
    """ε that skips from 4 to 2 where σ passes 1."""

    certifies, name = True, "jumping"

    def epsilon(self, event, relation, delta):
        sigma = event.event.event.noise_multiplier
        return (4.0 if sigma < 1 else 2.0) / sigma**0.1


def test_a_target_inside_a_jump_is_refused_rather_than_missed():
    with pytest.raises(ConfigError, match="no noise multiplier meets this target"):
        solve_noise(Jumping(), event, ADD_REMOVE, 3.0, DELTA)


@every_accountant
@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_a_target_that_is_no_budget_is_refused(accountant, target):
    with pytest.raises(ConfigError, match="epsilon"):
        accountant.calibrate(event, ADD_REMOVE, target, DELTA)
    with pytest.raises(ConfigError, match="epsilon"):
        largest_steps(accountant, lambda t: event(1.0, t), ADD_REMOVE, target, DELTA, 10)


def test_rdp_does_not_solve_for_replace_one():
    with pytest.raises(ConfigError, match="accountant=pld"):
        ACCOUNTANTS["rdp"].calibrate(event, REPLACE, 3.0, DELTA)


@every_accountant
@pytest.mark.parametrize(("sigma", "target", "steps"), [(3.0, 1.0, 2000), (4.0, 0.5, 100_000)])
def test_the_largest_steps_fit_and_one_more_does_not(accountant, sigma, target, steps):
    def spent(count):
        return accountant.epsilon(event(sigma, count), ADD_REMOVE, DELTA)

    counting = Counting(accountant)
    last = largest_steps(counting, lambda t: event(sigma, t), ADD_REMOVE, target, DELTA, steps)
    assert 0 < last < steps
    assert spent(last) <= target < spent(last + 1)
    assert counting.calls <= 12


def test_no_more_steps_are_given_than_were_asked_for():
    rdp, solved = ACCOUNTANTS["rdp"], 5.0
    assert largest_steps(rdp, lambda t: event(solved, t), ADD_REMOVE, 3.0, DELTA, STEPS) == STEPS
    assert largest_steps(rdp, lambda t: event(solved, t), ADD_REMOVE, 3.0, DELTA, 0) == 0


@pytest.mark.parametrize(("sigma", "steps"), [(0.3, 1), (0.3, 2), (0.3, 500), (0.0, 20)])
def test_no_step_fits_a_budget_below_one_step(sigma, steps):
    rdp = ACCOUNTANTS["rdp"]
    assert largest_steps(rdp, lambda t: event(sigma, t), ADD_REMOVE, 0.1, DELTA, steps) == 0


def test_fewer_than_zero_steps_are_refused():
    with pytest.raises(ConfigError, match="steps"):
        largest_steps(ACCOUNTANTS["rdp"], lambda t: event(1.0, t), ADD_REMOVE, 1.0, DELTA, -1)
