"""The privacy profile of an event agrees with the ε that is certified, and never says less."""

import numpy as np
import pytest

from dpsgd.accounting import PLD, privacy_profile
from dpsgd.accounting.library import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent


def test_the_profile_at_the_certified_epsilon_is_delta_and_hardly_more():
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(1.5)), 300)
    for delta in (1e-5, 1e-3):
        epsilon = PLD("pld", 1e-4).epsilon(event, "add_or_remove_one", delta)
        found = privacy_profile(event, "add_or_remove_one", np.linspace(0.0, epsilon, 5))
        assert delta <= found[-1] * (1 + 1e-6)
        assert found[-1] == pytest.approx(delta, rel=0.01)
        assert (np.diff(found) < 0).all()


def test_a_profile_stays_between_nought_and_one():
    epsilons = np.linspace(0.0, 100.0, 50)
    found = privacy_profile(GaussianDpEvent(1.0), "add_or_remove_one", epsilons)
    assert ((found >= 0) & (found <= 1)).all()
    assert found[-1] < 1e-12
