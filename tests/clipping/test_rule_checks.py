"""A rule that training could not go on with is refused before it, by the name of the setting."""

from dataclasses import dataclass

import pytest
import torch
from rule_contract import NODES, UNITS, build, groups_of

from dpsgd.clipping.checks import LARGEST, SMALLEST, check_rule
from dpsgd.clipping.flat import Flat
from dpsgd.errors import ConfigError
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.python import resolved

WITH_NORM = [
    name
    for name, node in NODES.items()
    if node.get("norm") is not None and "floor" not in node  # a floor lifts what is too small
]
OUTSIDE = [1e-46, 1e-40, SMALLEST / 2, LARGEST * 2, 1e39]


def refused(rule):
    with pytest.raises(ConfigError) as error:
        check_rule(rule, groups_of(rule), UNITS)
    return error.value


@pytest.mark.parametrize("name", WITH_NORM)
@pytest.mark.parametrize("norm", OUTSIDE)
def test_a_threshold_outside_float32_is_refused_by_its_key_with_what_is_allowed(name, norm):
    error = refused(build(name, norm=norm))
    assert error.key == "norm"
    assert "from 1e-30 to 1e+30" in error.allowed


@pytest.mark.parametrize("name", WITH_NORM)
@pytest.mark.parametrize("norm", [1e-28, 1e28])
def test_far_thresholds_inside_it_are_not(name, norm):
    rule = build(name, norm=norm)
    check_rule(rule, groups_of(rule), UNITS)


def test_the_threshold_of_one_layer_is_refused_by_its_name():
    rule = build("per_layer", norm=None, norms={"a": 1.0, "b": 1e-46, "c": 1.0})
    with pytest.raises(ConfigError) as error:
        check_rule(rule, groups_of(rule), UNITS)
    assert error.value.key == "norms.b"


@dataclass(frozen=True)
class Double(Flat):
    """Weights in float64, whatever the norms are."""

    def weights(self, norms, state, info):
        return super().weights(norms, state, info).double()


@dataclass(frozen=True)
class Whole(Flat):
    """Weights that are whole numbers."""

    def weights(self, norms, state, info):
        return (norms < self.norm).long()


@dataclass(frozen=True)
class Squeezed(Flat):
    """One weight a unit, without the groups."""

    def weights(self, norms, state, info):
        return super().weights(norms, state, info)[..., 0]


@pytest.mark.parametrize(
    ("rule", "said"),
    [(Double, "float64 for norms of float32"), (Whole, "int64 for norms of float32"),
     (Squeezed, "weights of shape")],
)  # fmt: skip
def test_weights_that_no_gradient_can_be_multiplied_by_are_refused(rule, said):
    error = refused(rule(name="own", unit="record", norm=1.0))
    assert error.key == "clip"
    assert said in error.allowed


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"clip.norm": 1e-46}, "clip.norm"), ({"optim.lr": 1e39}, "optim.lr"),
     ({"clip": "global_adapt", "clip.norm": 1e39}, "clip.norm")],
)  # fmt: skip
def test_a_cell_with_settings_outside_float32_is_refused_before_training(settings, key):
    with pytest.raises(ConfigError) as error:
        prepare(read_cell(resolved({"debug": "fast", "tracker": "none"} | settings)))
    assert error.value.key == key


def test_the_weights_of_every_rule_keep_the_kind_of_the_norms():
    for name in NODES:
        rule = build(name)
        if rule.bounded:
            check_rule(rule, groups_of(rule), UNITS)
        assert torch.get_default_dtype() == torch.float32
