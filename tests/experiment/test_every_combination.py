"""Every rule × telemetry × sampler × unit: its ledger is the sampler's event, or it is refused.

What those events cost is checked against brute force in tests/accounting/test_fail_closed.py, for
every sampler × accountant × relation × unit.
"""

import functools
import math
from pathlib import Path

import pytest

from dpsgd.accounting.merging import merged, noise_of
from dpsgd.errors import ConfigError
from dpsgd.experiment.ledger import composed_event, ledger_of
from dpsgd.experiment.plan import Plan, check_scale
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.python import resolved
from dpsgd.sampling.schemes import event_of

CONF = Path(__file__).parents[2] / "conf"
SIGMA, STEPS, N = 1.0, 3, 1334
RELATION = {"shuffled": "replace_one"}


def options(group):
    return [path.stem for path in sorted((CONF / group).glob("*.yaml"))]


def reasons(rule, telemetry, sampling, unit):
    """Why a combination is refused; none: a new option that is not said here must work."""
    found = []
    if rule == "none":
        found.append("mechanism=private")  # bounds nothing
    if rule == "group_thresholds" and unit == "user":
        found.append("needs one group a unit")  # users with records of many labels
    if sampling == "poisson_capped_users" and unit == "user":
        found.append("clips records one by one")
    if telemetry == "probe" and unit == "user":
        found.append("measures validation records")
    return found


@functools.cache
def chosen(group, option):
    return resolved({group: option})[group]


@functools.cache
def base(users):
    settings = {"debug": "fast", "tracker": "none", "noise_multiplier": SIGMA, "steps": STEPS}
    people = {"users": "dirichlet", "users.count": 60} if users else {}
    return resolved(settings | people)


def planned(rule, telemetry, sampling, unit):
    config = dict(base(unit == "user" or sampling == "poisson_capped_users"))
    config["clip"] = chosen("clip", rule) | {"unit": unit}
    config["telemetry"] = chosen("telemetry", telemetry)
    config["sampling"] = chosen("sampling", sampling)
    config["epsilon"] = None
    config["relation"] = RELATION.get(sampling, "add_or_remove_one")
    config["batch"] = 20 if unit == "user" else 64
    if sampling == "full":
        config["batch"] = 60 if unit == "user" else N
    prepared = prepare(read_cell(config))
    check_scale(prepared, SIGMA)
    return Plan(prepared, SIGMA, STEPS, math.nan, {})


@pytest.mark.parametrize("unit", ["record", "user"])
@pytest.mark.parametrize("sampling", options("sampling"))
@pytest.mark.parametrize("rule", options("clip"))
def test_its_entries_are_the_event_of_its_sampler_or_it_is_refused(rule, sampling, unit):
    for telemetry in options("telemetry"):
        refused = reasons(rule, telemetry, sampling, unit)
        if refused:
            with pytest.raises(ConfigError, match="|".join(refused)):
                planned(rule, telemetry, sampling, unit)
            continue
        plan = planned(rule, telemetry, sampling, unit)
        ledger = ledger_of(plan)
        found = composed_event(ledger)
        right = event_of(plan.prepared.sampler.facts, SIGMA, STEPS)
        assert noise_of(found) == pytest.approx(SIGMA, rel=1e-12)
        merged([found, right])  # raises unless they differ in their noise alone
        asks = {"slice telemetry"} if telemetry == "accounted" else set()
        assert asks == {e["purpose"] for e in ledger["entries"]} - {"gradient", "clip query"}
