from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpsgd.accounting.library import gaussian_sigma
from dpsgd.auditing.curves import curve_of_deltas, gaussian_curve
from dpsgd.auditing.guesses import (
    Guesses,
    epsilon_of_guesses,
    gaussian_epsilon_of_guesses,
    p_value,
    refutes,
)
from dpsgd.auditing.trials import Trials, epsilon_of_mu, epsilon_of_trials, mu_of_trials


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "epsilon"),
    [
        (1000, 1000, 600, 0, 0.2975), (1000, 1000, 750, 0, 0.9767), (1000, 1000, 1000, 0, 5.8091),
        (1000, 100, 95, 0, 2.1724), (1000, 1000, 750, 1e-5, 0.9764),
    ],
)  # fmt: skip
def test_one_run_bound_has_the_published_values(m, r, v, delta, epsilon):
    assert epsilon_of_guesses(Guesses(m, r, v), delta, 0.05) == pytest.approx(epsilon, abs=5e-5)


@pytest.mark.parametrize(
    ("r", "v", "epsilon"), [(1000, 600, 0.5835), (1000, 750, 1.8189), (100, 95, 3.3233)]
)
def test_gaussian_shape_bound_has_the_published_values(r, v, epsilon):
    found = gaussian_epsilon_of_guesses(Guesses(1000, r, v), 1e-5, 0.05)
    assert found == pytest.approx(epsilon, abs=5e-5)


def test_many_run_bound_has_the_published_values():
    trials = Trials(1000, 1000, 10, 700)
    assert epsilon_of_trials(trials, 1e-5, 0.05) == pytest.approx(2.6971, abs=5e-5)
    assert mu_of_trials(trials, 0.05) == pytest.approx(1.4823, abs=5e-5)


def test_half_right_guesses_refute_nothing():
    guesses = Guesses(1000, 1000, 500)
    assert epsilon_of_guesses(guesses, 1e-5, 0.05) == 0
    assert gaussian_epsilon_of_guesses(guesses, 1e-5, 0.05) == 0
    assert not refutes(Guesses(10, 0, 0), gaussian_curve(0.0), 0.05)


@pytest.mark.parametrize("bad", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)])
def test_counts_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match="correct <= made"):
        Guesses(*bad)


def test_a_claim_without_noise_in_it_is_never_refuted_by_its_own_randomised_response():
    # W ~ Binomial(r, e^ε/(1+e^ε)) is exactly ε-private: rejected in at most 5 % of draws.
    generator, epsilon = np.random.default_rng(0), 1.0
    right = generator.binomial(500, 1 / (1 + np.exp(-epsilon)), size=400)
    rejected = [p_value(Guesses(500, 500, int(v)), epsilon, 0.0) <= 0.05 for v in right]
    assert 0.01 < np.mean(rejected) <= 0.08
    curve = curve_of_deltas([epsilon], [0.0])
    assert np.mean([refutes(Guesses(500, 500, int(v)), curve, 0.05) for v in right[:100]]) <= 0.1


def test_a_gaussian_release_is_not_refuted_and_half_its_noise_is():
    generator, m, made, mu = np.random.default_rng(1), 1000, 200, 1.0
    curve = gaussian_curve(mu)
    for true, least, most in ((mu, 0.0, 0.1), (2 * mu, 0.9, 1.0)):
        refuted = []
        for _ in range(40):
            coins = generator.random(m) < 0.5
            scores = true * (coins - 0.5) + generator.normal(size=m)
            sure = np.argsort(-np.abs(scores))[:made]
            right = int(((scores[sure] > 0) == coins[sure]).sum())
            refuted.append(refutes(Guesses(m, made, right), curve, 0.05))
        assert least <= np.mean(refuted) <= most


def test_more_right_guesses_never_say_less():
    found = [epsilon_of_guesses(Guesses(200, 200, v), 1e-5, 0.05) for v in range(100, 201, 10)]
    assert found == sorted(found)
    found = [gaussian_epsilon_of_guesses(Guesses(200, 200, v), 1e-5, 0.05) for v in (110, 150, 199)]
    assert found == sorted(found)


def test_the_curve_of_a_profile_lies_below_the_gaussian_and_close_to_it():
    mu = 1 / gaussian_sigma(2.0, 1e-5)
    epsilons = np.linspace(0, 12, 200)
    deltas = stats.norm.cdf(-epsilons / mu + mu / 2) - np.exp(epsilons) * stats.norm.cdf(
        -epsilons / mu - mu / 2
    )
    profile, exact = curve_of_deltas(epsilons, np.clip(deltas, 0, 1)), gaussian_curve(mu)
    for alpha in np.linspace(0.001, 0.999, 50):
        assert profile(alpha) <= exact(alpha) + 1e-12
        assert profile(alpha) == pytest.approx(exact(alpha), abs=2e-3)


def test_curves_refuse_what_no_claim_says():
    with pytest.raises(ValueError, match="mu"):
        gaussian_curve(-1.0)
    for epsilons, deltas in (([], []), ([1.0], [2.0]), ([-1.0], [0.1]), ([1.0, 2.0], [0.1])):
        with pytest.raises(ValueError, match=r"every ε|one δ"):
            curve_of_deltas(epsilons, deltas)


def test_epsilon_of_mu_is_the_calibration_of_a_gaussian_backwards():
    for epsilon in (0.1, 1.0, 8.0):
        mu = 1 / gaussian_sigma(epsilon, 1e-6)
        assert epsilon_of_mu(mu, 1e-6) == pytest.approx(epsilon, rel=1e-4)
    assert epsilon_of_mu(0.0, 1e-6) == 0


def test_runs_that_tell_nothing_apart_bound_nothing():
    assert epsilon_of_trials(Trials(100, 100, 50, 50), 1e-5, 0.05) == 0
    assert mu_of_trials(Trials(100, 100, 100, 0), 0.05) == 0
    with pytest.raises(ValueError, match="false negatives"):
        Trials(10, 10, 0, 11)
