"""Settings that a rule refuses, each by its key."""

import math

import pytest
from rule_contract import NODES, RULES, UNITS, build, first_state, groups_of

from dpsgd.clipping import Groups
from dpsgd.errors import ConfigError

NOT_POSITIVE = [0.0, -1.0, math.inf, math.nan]
NEGATIVE = [-1e-9, math.inf, math.nan]
REFUSED = {
    "norm": NOT_POSITIVE,
    "bound": NOT_POSITIVE,
    "tau": NOT_POSITIVE,
    "floor": NOT_POSITIVE,
    "count_noise": NOT_POSITIVE,
    "quantile": [0.0, 1.0, -0.1, 1.1, math.nan],
    "rate": NEGATIVE,
    "gamma": NEGATIVE,
    "r": NEGATIVE,
    "unit": ["household", None],
    "variant": ["AUTO", "auto-s"],
    "noise": ["none"],
    "groups": ["all"],
}
CASES = [
    (name, key, value)
    for name, node in NODES.items()
    if "-" not in name
    for key in node
    for value in REFUSED.get(key, [])
]


@pytest.mark.parametrize(("name", "key", "value"), CASES)
def test_a_bad_setting_is_refused_by_its_key(name, key, value):
    with pytest.raises(ConfigError) as refused:
        build(name, **{key: value})
    assert refused.value.key == f"clip.{key}"


@pytest.mark.parametrize(
    ("name", "sensitivity"),
    [
        ("adaptive", 0.5),
        ("bounded_adaptive", 0.5),
        ("adaptive_per_layer", 3**0.5 / 2),
        ("global_adapt", 0.5),
        ("group_thresholds", 1.0),
    ],
)
def test_queries_that_leave_nothing_for_the_gradient_are_refused(name, sensitivity):
    sigma = 1.75
    build(name, count_noise=1.001 * sigma * sensitivity).bind(groups_of(build(name)), sigma, UNITS)
    with pytest.raises(ConfigError) as refused:
        first_state(build(name, count_noise=0.999 * sigma * sensitivity), sigma)
    assert refused.value.key == "count_noise"
    first = str(refused.value).splitlines()[0]
    assert "σ = 1.75" in first
    assert f"σ_b = {0.999 * sigma * sensitivity:g}" in first


def test_half_of_sigma_is_refused_itself():
    with pytest.raises(ConfigError):
        first_state(build("adaptive", count_noise=0.5), 1.0)


def test_a_derived_count_noise_is_named_as_derived():
    with pytest.raises(ConfigError, match=r"σ_b = 0\.05, which is 5 % of 1 units"):
        build("adaptive").bind(groups_of(build("adaptive")), 1.0, 1.0)


ONE_GROUP = [name for name, rule in RULES.items() if rule.granularity == "all" and rule.bounded]


@pytest.mark.parametrize("name", ONE_GROUP)
def test_a_rule_for_the_whole_gradient_refuses_several_groups(name):
    with pytest.raises(ValueError, match=r"one clip group, got \('a', 'b'\)"):
        RULES[name].bind(Groups(("a", "b"), (("a",), ("b",)), (1, 1)), 1.0, UNITS)
