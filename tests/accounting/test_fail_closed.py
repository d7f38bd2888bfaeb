"""Every sampler × accountant × relation × unit: ε as brute force has it, or a refusal."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest
import torch
from accountants import ACCOUNTANTS
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from hydra.utils import instantiate
from omegaconf import OmegaConf
from reference_epsilon import gaussian_epsilon, hockey_stick_epsilon, pairs, renyi_epsilon

from dpsgd.accounting.library import (
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
    pld_epsilon,
)
from dpsgd.accounting.sampled import FixedBatchesDpEvent
from dpsgd.errors import ConfigError
from dpsgd.sampling import Owners

CONF = Path(__file__).parents[2] / "conf"
SAMPLINGS = {path.stem: path for path in sorted((CONF / "sampling").glob("*.yaml"))}
RELATIONS = ADD_REMOVE, REPLACE, ZERO_OUT = "add_or_remove_one", "replace_one", "replace_special"
UNITS = ("record", "user")

N, BATCH, SIGMA, STEPS, DELTA, CAP, MOST = 40, 8, 1.6, 5, 1e-3, 11, 3
"""40 units, in users of 3 records; steps that end inside a third epoch of two batches."""

REFUSED = None
BOTH = (ADD_REMOVE, ZERO_OUT)
SCHEMES = {
    # sampling: (relations that its event is right for, what a step is, records and users both)
    "poisson": (RELATIONS, ("poisson", BATCH / N), UNITS),
    "poisson_truncated": (RELATIONS, ("truncated", N + 1, BATCH / N, CAP), UNITS),
    "full": (RELATIONS, ("full",), UNITS),
    "shuffled": ((REPLACE, ZERO_OUT), ("epochs",), UNITS),
    "poisson_capped_users": (BOTH, ("users", MOST, BATCH / N), ("record",)),
}
METHODS = {
    # accountant: (how it is checked, relations, what steps it can tell; the largest excess over it)
    "pld": ("exact", RELATIONS, ("poisson", "truncated", "full", "epochs", "users"), 2e-3),
    "prv": ("exact", BOTH, ("poisson", "full", "epochs"), 2e-2),
    "rdp": ("renyi", BOTH, ("poisson", "full", "epochs"), 5e-3),
    "moments": ("old", BOTH, ("poisson", "full", "epochs"), 5e-3),
}
COMBINATIONS = list(itertools.product(SAMPLINGS, ACCOUNTANTS, RELATIONS, UNITS))


def test_the_table_has_every_sampling_and_every_accountant():
    assert set(SAMPLINGS) == set(SCHEMES)
    assert set(ACCOUNTANTS) == set(METHODS)


@pytest.mark.parametrize(("sampling", "accountant", "relation", "unit"), COMBINATIONS)
def test_epsilon_is_that_of_brute_force_or_refused(sampling, accountant, relation, unit):
    relations, scheme, units = SCHEMES[sampling]
    method, known, told, excess = METHODS[accountant]
    if unit not in units:
        with pytest.raises(ConfigError):
            _sampler(sampling, unit)
        return
    event = _sampler(sampling, unit).event(SIGMA, STEPS)
    if relation not in relations or relation not in known or scheme[0] not in told:
        with pytest.raises(ConfigError, match="cannot"):
            ACCOUNTANTS[accountant].epsilon(event, relation, DELTA)
        return
    found = _epsilon(accountant, event, relation)
    right = _reference(scheme, relation, method)
    assert right * (1 - 5e-4) <= found <= right * (1 + excess)


_FOUND = {}


def _epsilon(accountant, event, relation):
    """Records and users of one number are one event, and asked about once."""
    key = accountant, repr(event), relation
    if key not in _FOUND:
        _FOUND[key] = ACCOUNTANTS[accountant].epsilon(event, relation, DELTA)
    return _FOUND[key]


@functools.cache
def _reference(scheme, relation, method):
    steps = STEPS
    if scheme == ("epochs",):
        scheme, steps = ("full",), 2  # five steps in epochs of four: one of each in both
    if scheme == ("full",) and method == "exact":
        return gaussian_epsilon((2 if relation == REPLACE else 1) * steps**0.5 / SIGMA, DELTA)
    step = pairs(scheme, relation, SIGMA)
    if method == "exact":
        return hockey_stick_epsilon(step, steps, DELTA)
    return renyi_epsilon(step, steps, DELTA, method)


def _sampler(sampling, unit):
    settings = OmegaConf.load(SAMPLINGS[sampling])
    if "cap" in settings:
        settings.cap = CAP
    if sampling == "poisson_capped_users":
        settings.max_records_per_user = MOST
    part = instantiate(settings)
    batch = {"full": N, "shuffled": 10}.get(sampling, BATCH)
    # 14 users, of whom one has a single record: 40 records, all of them within the cap.
    owners = torch.arange(N) // MOST
    if unit == "record":
        return part.records(N, batch, Owners(owners, 14))
    return part.users(torch.arange(120) // 3, N, batch)


class _Unknown(GaussianDpEvent):
    """Inherits from what is known, and means something else."""


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("event", [
    DpEvent(), _Unknown(1.0), PoissonSampledDpEvent(0.1, DpEvent()),
    PoissonSampledDpEvent(0.1, PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))),
    PoissonSampledDpEvent(0.1, FixedBatchesDpEvent(1.0, 2)),
    SelfComposedDpEvent(_Unknown(1.0), 3),
], ids=lambda event: repr(event)[:40])  # fmt: skip
def test_an_event_that_nobody_proved_anything_of_is_refused(accountant, relation, event):
    with pytest.raises(ConfigError, match="cannot account for"):
        ACCOUNTANTS[accountant].epsilon(event, relation, 1e-3)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (FixedBatchesDpEvent(3.0, 2), ADD_REMOVE),
        (MixtureOfGaussiansDpEvent(3.0, (0.0, 1.0), (0.9, 0.1)), REPLACE),
    ],
)
def test_no_accountant_takes_an_event_outside_its_relations(accountant, event, relation):
    for inside in (event, SelfComposedDpEvent(event, 2)):
        with pytest.raises(ConfigError, match="cannot"):
            ACCOUNTANTS[accountant].epsilon(inside, relation, 1e-3)


def test_the_reference_knows_published_numbers():
    poisson = hockey_stick_epsilon(pairs(("poisson", 0.005), ADD_REMOVE, 0.8), 1000, 1e-6)
    assert poisson == pytest.approx(2.00411, rel=2e-3)
    users = hockey_stick_epsilon(pairs(("users", 2, 0.01), ADD_REMOVE, 1.0), 1000, 1e-6)
    assert users == pytest.approx(4.5541, rel=2e-3)


@pytest.mark.parametrize(
    ("most", "epsilon"), [(1, 2.1245), (2, 4.5541), (4, 10.0153), (8, 23.0825)]
)
def test_capped_users_cost_what_charles_et_al_have(most, epsilon):
    settings = OmegaConf.load(SAMPLINGS["poisson_capped_users"])
    settings.max_records_per_user = most
    owners = torch.arange(200) // most
    sampler = instantiate(settings).records(200, 2.0, Owners(owners, 200 // most))
    found = ACCOUNTANTS["pld"].epsilon(sampler.event(1.0, 1000), ADD_REMOVE, 1e-6)
    assert found == pytest.approx(epsilon, rel=1e-4)


def test_the_quick_pld_of_a_mixture_is_the_library_s():
    event = SelfComposedDpEvent(MixtureOfGaussiansDpEvent(2.0, (0, 1, 2), (0.8, 0.15, 0.05)), 7)
    slow = PLDAccountant(NeighboringRelation.REPLACE_SPECIAL, 2e-3)
    slow.compose(event)
    quick = pld_epsilon(event, NeighboringRelation.REPLACE_SPECIAL, 1e-4, 2e-3)
    assert quick == pytest.approx(slow.get_epsilon(1e-4), rel=1e-7)


def test_a_truncated_event_is_of_the_larger_neighbour():
    event = _sampler("poisson_truncated", "record").event(SIGMA, STEPS)
    assert event == SelfComposedDpEvent(
        TruncatedSubsampledGaussianDpEvent(N + 1, BATCH / N, CAP, SIGMA), STEPS
    )
