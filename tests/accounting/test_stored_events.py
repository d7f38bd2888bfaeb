"""Events as JSON, merged where they share a draw, composed where they do not."""

import json
import math

import pytest
from dp_accounting import LaplaceDpEvent

from dpsgd import ConfigError
from dpsgd.accounting import RDP, joint_multiplier, no_privacy, poisson_gaussian
from dpsgd.accounting.library import (
    ComposedDpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.accounting.merging import composed, merged, noise_of
from dpsgd.accounting.stored import event_from_json, event_to_json

EVENTS = [
    GaussianDpEvent(1 / 3),
    poisson_gaussian(256 / 3700, 1.6591797350574207, 290),
    SelfComposedDpEvent(TruncatedSubsampledGaussianDpEvent(3700, 0.07, 300, 1.1), 290),
    SelfComposedDpEvent(MixtureOfGaussiansDpEvent(0.7, (0.0, 1.0, 2.0), (0.81, 0.18, 0.01)), 5),
    ComposedDpEvent([NoOpDpEvent(), no_privacy(), GaussianDpEvent(2.0)]),
    RepeatAndSelectDpEvent(poisson_gaussian(0.1, 2.0, 3), 10.0, 0.5),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_an_event_is_read_back_in_every_digit(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


@pytest.mark.parametrize(
    "event", [LaplaceDpEvent(1.0), PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0))]
)
def test_other_types_of_event_are_not_written(event):
    with pytest.raises(ConfigError, match="must be one of"):
        event_to_json(event)


STORED = event_to_json(poisson_gaussian(0.1, 2.0, 3))


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        {},
        {"type": "Laplace", "noise_multiplier": 1.0},
        {"type": ["Gaussian"], "noise_multiplier": 1.0},
        {"type": "Gaussian"},
        {"type": "Gaussian", "noise_multiplier": 1.0, "more": 1},
        {"type": "Gaussian", "noise_multiplier": "1.0"},
        {"type": "Gaussian", "noise_multiplier": True},
        {"type": "Gaussian", "noise_multiplier": -1.0},
        {"type": "Gaussian", "noise_multiplier": math.inf},
        {"type": "Gaussian", "noise_multiplier": math.nan},
        STORED | {"count": 2.5},
        STORED | {"count": -1},
        STORED | {"event": STORED["event"] | {"sampling_probability": 0.0}},
        STORED | {"event": STORED["event"] | {"sampling_probability": 1.1}},
        {"type": "Composed", "events": {}},
    ],
)
def test_what_is_no_event_is_not_read(stored):
    with pytest.raises(ConfigError):
        event_from_json(stored)


def test_an_integer_in_json_is_the_same_noise():
    stored = {"type": "Gaussian", "noise_multiplier": 2}
    assert isinstance(event_from_json(stored).noise_multiplier, float)


@pytest.mark.parametrize(
    "make",
    [
        lambda s: poisson_gaussian(0.1, s, 7),
        lambda s: SelfComposedDpEvent(TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, s), 7),
        lambda s: SelfComposedDpEvent(MixtureOfGaussiansDpEvent(s, (0.0, 1.0), (0.9, 0.1)), 7),
        lambda s: SelfComposedDpEvent(GaussianDpEvent(s), 2),
    ],
)
def test_releases_of_one_draw_merge_into_that_of_the_joint_multiplier(make):
    sigmas = (1.3, 2.9, 40.0)
    joint = merged([make(s) for s in sigmas])
    assert joint == make(joint_multiplier(sigmas))
    assert noise_of(joint) == joint_multiplier(sigmas)


@pytest.mark.parametrize(
    "other", [poisson_gaussian(0.2, 1.0, 7), poisson_gaussian(0.1, 1.0, 8), GaussianDpEvent(1.0)]
)
def test_releases_of_different_draws_do_not_merge(other):
    with pytest.raises(ConfigError, match="noise alone"):
        merged([poisson_gaussian(0.1, 1.0, 7), other])


def test_merging_costs_more_than_two_sampled_events_claim():
    one, joint = poisson_gaussian(0.05, 0.9, 100), merged([poisson_gaussian(0.05, 0.9, 100)] * 2)
    spent = [RDP("rdp", None).epsilon(e, "add_or_remove_one", 1e-5)
             for e in (composed([one, one]), joint)]  # fmt: skip
    assert spent[1] > spent[0] * 1.05


def test_composition_has_no_order_and_counts_what_is_equal():
    a, b = poisson_gaussian(0.1, 1.0, 7), poisson_gaussian(0.1, 2.0, 5)
    assert composed([a, b, a]) == composed([a, a, b])
    assert composed([a, a]) == poisson_gaussian(0.1, 1.0, 14)
    assert composed([]) == composed([NoOpDpEvent()]) == NoOpDpEvent()
    assert composed([a]) == a
