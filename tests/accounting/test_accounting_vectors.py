from __future__ import annotations

import functools

import pytest
from accountants import ACCOUNTANTS, VECTORS, rate

from dpsgd.accounting import joint_multiplier, poisson_gaussian

ADD_REMOVE = "add_or_remove_one"
CLOSE = 1e-3


def named(row):
    return "-".join(str(row[key]) for key in ("q", "sigma", "epsilon", "T") if key in row)


@functools.cache
def add_remove_epsilon(name, q, sigma, steps, delta):
    event = poisson_gaussian(rate(q), sigma, steps)
    return ACCOUNTANTS[name].epsilon(event, ADD_REMOVE, delta)


def epsilon_of(row, name):
    return add_remove_epsilon(name, row["q"], row["sigma"], row["T"], row["delta"])


def every(section):
    return pytest.mark.parametrize("row", VECTORS[section], ids=named)


def event_of(row, sigma=None):
    return poisson_gaussian(rate(row["q"]), row["sigma"] if sigma is None else sigma, row["T"])


@pytest.mark.parametrize("name", ["pld", "rdp"])
@every("epsilon")
def test_epsilon_matches_the_published_value(row, name):
    assert epsilon_of(row, name) == pytest.approx(row[name], rel=CLOSE)


@every("epsilon")
def test_pld_is_never_looser_than_rdp(row):
    assert epsilon_of(row, "pld") <= epsilon_of(row, "rdp")


@pytest.mark.parametrize("name", ["pld", "rdp"])
@every("solve_sigma")
def test_solved_sigma_matches_the_published_value(row, name):
    sigma = ACCOUNTANTS[name].calibrate(
        lambda s: event_of(row, s), ADD_REMOVE, row["epsilon"], row["delta"]
    )
    assert sigma == pytest.approx(row[name], rel=CLOSE)


@pytest.mark.parametrize("relation", [ADD_REMOVE, "replace_one"])
@every("relation")
def test_the_relation_changes_epsilon_as_published(row, relation):
    epsilon = ACCOUNTANTS["pld"].epsilon(event_of(row), relation, row["delta"])
    assert epsilon == pytest.approx(row[f"pld_{relation}"], rel=CLOSE)


@every("joint")
def test_two_releases_of_one_draw_are_one_event(row):
    sigma = joint_multiplier([row["sigma"], row["sigma_b"]])
    epsilon = ACCOUNTANTS["pld"].epsilon(event_of(row, sigma), ADD_REMOVE, row["delta"])
    assert epsilon == pytest.approx(row["pld_right"], rel=CLOSE)
    assert epsilon > row["pld_if_two_events"] * 1.1
