"""A claim that a planted fault makes false is refuted, and the same claim without it is not."""

import pytest

from benchmarks.audit_planted import FAULTS, USERS
from benchmarks.audit_runs import audited_run
from dpsgd.errors import ConfigError
from dpsgd.training import sums

NORM, BATCH = 1.0, 200.0
SMALL = {
    "data": "digits", "model": "mlp", "steps": 40, "batch": BATCH, "epsilon": 4.0,
    "clip.norm": NORM, "audit.canaries": 500,
}  # fmt: skip
EVERYONE = {"sampling": "full", "batch": 1834.0, "steps": 8}
"""All units in every step: a claim and the best attack on it are closest then, and seconds do."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("accountants")


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name, cache):
    fault = FAULTS[name]
    settings = SMALL | fault.settings | (EVERYONE if name == "half the noise" else {})
    found = audited_run(settings, cache, fault.plant(NORM, settings["batch"]))
    assert found["audit_refuted"] is True
    assert found["audit_guesses"] == 100  # r = m/5


@pytest.mark.parametrize("settings", [{}, EVERYONE, USERS], ids=["records", "everyone", "users"])
def test_without_a_fault_nothing_is_refuted(settings, cache):
    for seed in range(2):
        found = audited_run(SMALL | settings | {"seed": seed}, cache)
        assert found["audit_refuted"] is False
        assert 0 < found["audit_epsilon_gaussian"] < found["epsilon"]


def test_a_fault_stands_only_while_it_is_planted(cache):
    kept = sums.check_envelope
    for fault in FAULTS.values():
        with fault.plant(NORM, BATCH):
            pass
    assert kept is sums.check_envelope
    assert audited_run(SMALL, cache)["audit_refuted"] is False


def test_a_rule_that_spares_a_slice_is_refused_before_it_trains(cache):
    fault = FAULTS["a slice unclipped"]
    with fault.plant(NORM, BATCH), pytest.raises(ConfigError, match="leaves the envelope"):
        audited_run(SMALL | fault.settings, cache)
