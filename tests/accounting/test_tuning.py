"""The price of choosing among runs: published values, and the laws of a fair price."""

from __future__ import annotations

import pytest
from accountants import ACCOUNTANTS, VECTORS, rate

from dpsgd.accounting import best_of_random, every_run, poisson_gaussian
from dpsgd.errors import ConfigError

ADD_REMOVE = "add_or_remove_one"
(BASE,) = (row for row in VECTORS["epsilon"] if row["sigma"] == 1.1)
RUN = poisson_gaussian(rate(BASE["q"]), BASE["sigma"], BASE["T"])
SELECTED, COMPOSED = VECTORS["tuning"]
NEGATIVE, POISSON = "truncated_negative_binomial", "poisson"


def spent(name, event):
    return ACCOUNTANTS[name].epsilon(event, ADD_REMOVE, BASE["delta"])


@pytest.mark.parametrize("eta", SELECTED[NEGATIVE])
def test_a_truncated_negative_binomial_number_of_runs(eta):
    event = best_of_random(RUN, NEGATIVE, SELECTED["mean_runs"], float(eta))
    assert spent("rdp", event) == pytest.approx(SELECTED[NEGATIVE][eta], rel=1e-3)


def test_a_poisson_number_of_runs():
    event = best_of_random(RUN, POISSON, SELECTED["mean_runs"], None)
    assert spent("rdp", event) == pytest.approx(SELECTED[POISSON], rel=1e-3)


@pytest.mark.parametrize("name", ["rdp", "pld"])
def test_every_run_is_plain_composition(name):
    event = every_run(RUN, COMPOSED["runs"])
    assert spent(name, event) == pytest.approx(COMPOSED[name], rel=1e-3)


def test_the_best_costs_more_than_one_run_and_less_than_all():
    best = spent("rdp", best_of_random(RUN, NEGATIVE, 10, 1.0))
    assert BASE["rdp"] < best < COMPOSED["rdp"]
    assert best < spent("rdp", best_of_random(RUN, NEGATIVE, 100, 1.0))


def test_an_int_sigma_inside_is_a_float_sigma():
    whole, real = (
        spent("rdp", best_of_random(every_run(poisson_gaussian(0.1, 2.0, 5), 2), NEGATIVE, m, e))
        for m, e in ((10, 1), (10.0, 1.0))
    )
    assert whole == real


@pytest.mark.parametrize("name", ["pld", "prv"])
def test_accountants_that_know_no_selection_refuse(name):
    with pytest.raises(ConfigError, match="cannot account"):
        spent(name, best_of_random(RUN, NEGATIVE, 10, 1.0))


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("binomial", 10, 1.0), "runs"),
        ((NEGATIVE, 1.0, 1.0), "mean_runs"),
        ((POISSON, 0.0, None), "mean_runs"),
        ((POISSON, float("inf"), None), "mean_runs"),
        ((POISSON, 10, 1.0), "eta"),
        ((NEGATIVE, 10, None), "eta"),
        ((NEGATIVE, 10, -0.5), "eta"),
    ],
)
def test_what_no_distribution_has_is_refused(arguments, key):
    with pytest.raises(ConfigError) as error:
        best_of_random(RUN, *arguments)
    assert error.value.key == key


def test_less_than_one_run_is_refused():
    with pytest.raises(ConfigError, match="runs"):
        every_run(RUN, 0)
