"""Published numbers of the older conversion, and closed forms that certify nothing."""

import math

import numpy as np
import pytest
from accountants import ACCOUNTANTS, VECTORS, rate
from scipy.stats import norm

from dpsgd.accounting import ESTIMATES, estimates, no_privacy, poisson_gaussian
from dpsgd.accounting.estimates import gdp, small_q, textbook
from dpsgd.errors import ConfigError

PUBLISHED = [row for row in VECTORS["epsilon"] if "old_rdp" in row]
ROWS = VECTORS["epsilon"]


def _event(row):
    return poisson_gaussian(rate(row["q"]), row["sigma"], row["T"])


def _arguments(row):
    return rate(row["q"]), row["sigma"], row["T"], row["delta"]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda r: r["source"])
def test_moments_gives_the_numbers_of_older_papers(row):
    found = ACCOUNTANTS["moments"].epsilon(_event(row), "add_or_remove_one", row["delta"])
    assert found == pytest.approx(row["old_rdp"], rel=1e-3)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["source"])
def test_moments_is_never_below_the_newer_conversion(row):
    found = ACCOUNTANTS["moments"].epsilon(_event(row), "add_or_remove_one", row["delta"])
    assert found >= row["rdp"]


def test_moments_refuses_what_renyi_dp_would_ignore():
    with pytest.raises(ConfigError, match="replace_one"):
        ACCOUNTANTS["moments"].epsilon(_event(ROWS[0]), "replace_one", 1e-5)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["source"])
def test_gdp_solves_its_own_equation(row):
    q, sigma, steps, delta = _arguments(row)
    epsilon, mu = gdp(q, sigma, steps, delta), q * math.sqrt(steps * math.expm1(sigma**-2))
    spent = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    assert spent == pytest.approx(delta, rel=1e-6)


def test_gdp_of_one_plain_gaussian_at_large_noise_is_exact():
    exact = ACCOUNTANTS["pld"].epsilon(poisson_gaussian(1.0, 50.0, 400), "add_or_remove_one", 1e-5)
    assert gdp(1.0, 50.0, 400, 1e-5) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["source"])
def test_small_q_is_at_its_best_order(row):
    q, sigma, steps, delta = _arguments(row)
    orders = 1 + np.logspace(-3, 5, 20_000)
    spent = steps * q**2 * orders / (2 * sigma**2) + math.log(1 / delta) / (orders - 1)
    assert small_q(q, sigma, steps, delta) == pytest.approx(spent.min(), rel=1e-5)


def test_the_textbook_line():
    assert textbook(0.01, 2.0, 5000, math.exp(-9)) == pytest.approx(0.01 * 100 * 3 / 2)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["source"])
def test_every_estimate_can_be_below_what_is_true(row):
    """Which is why none certifies: the accountants that do are never below PLD."""
    found = estimates(_event(row), row["delta"])
    assert set(found) == set(ESTIMATES)
    if row["sigma"] < 1:
        assert max(found.values()) < row["pld"]


def test_no_estimate_is_given_for_another_kind_of_event():
    assert estimates(no_privacy(), 1e-5) == {}
    assert estimates(poisson_gaussian(0.1, 0.0, 5), 1e-5) == {}
    assert estimates(poisson_gaussian(0.1, 1.0, 0), 1e-5) == {}


def test_noise_that_is_nearly_nothing_has_infinite_gdp():
    assert gdp(0.1, 0.03, 10, 1e-5) == math.inf
    assert gdp(0.1, 0.05, 10, 1e-5) == math.inf
