"""The contract of every rule in conf/clip, and the planted faults that it must catch."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd.clipping import Groups, envelope
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.per_layer import PerLayer
from dpsgd.experiment.parts import build_part
from dpsgd.training.step import private_step

CONF = Path(__file__).resolve().parents[2] / "conf" / "clip"
VARIANTS = [
    {"thresholds": t, "noise": n, "groups": g}
    for t in ("uniform", "by_dimension")
    for n in ("global", "equal_budget", "weighted")
    for g in ("layer", "tensor")
]


def _rules():
    found = {p.stem: build_part(yaml.safe_load(p.read_text()), "clip") for p in CONF.glob("*.yaml")}
    base = yaml.safe_load((CONF / "per_layer.yaml").read_text())
    for i, change in enumerate(VARIANTS):
        found[f"per_layer-{i}"] = build_part(base | change | {"norm": 0.7}, "clip")
    found["per_layer-named"] = build_part(
        base | {"norm": None, "norms": {"a": 0.1, "b": 2.0, "c": 1.0}, "noise": "weighted"}, "clip"
    )
    return found


RULES = _rules()
norm_values = st.one_of(st.just(0.0), st.floats(1e-12, 1e12))


def _groups(rule):
    if rule.granularity == "all":
        return Groups(("all",), (("a", "b", "c"),), (111,))
    return Groups(("a", "b", "c"), (("a",), ("b",), ("c",)), (100, 10, 1))


def check_envelope(rule, norms):
    groups = _groups(rule)
    state = rule.bind(groups, 1.0, 64.0)
    assert (envelope(rule, norms[..., : len(groups)], state, {}) <= 1 + 1e-12).all()


def check_rows(rule, norms):
    groups = _groups(rule)
    state = rule.bind(groups, 1.0, 64.0)
    norms = norms[..., : len(groups)]
    together = rule.weights(norms, state, {})
    alone = torch.stack([rule.weights(row, state, {}) for row in norms])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(norm_values, min_size=3, max_size=3), min_size=1, max_size=5))
def test_no_unit_leaves_the_envelope(name, rows):
    check_envelope(RULES[name], torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(norm_values, min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_row_is_weighted_by_itself(name, rows):
    check_rows(RULES[name], torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize("name", RULES)
def test_the_envelope_is_reached_so_that_no_noise_is_wasted(name):
    rule = RULES[name]
    groups = _groups(rule)
    state = rule.bind(groups, 1.0, 64.0)
    huge = torch.full((1, len(groups)), 1e9, dtype=torch.float64)
    reached = float(envelope(rule, huge, state, {}))
    assert reached == pytest.approx(1.0 if rule.bounded else 0.0)


@pytest.mark.parametrize("name", RULES)
def test_state_survives_a_checkpoint(name, tmp_path):
    rule = RULES[name]
    state = rule.bind(_groups(rule), 1.0, 64.0)
    torch.save(dict(state), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state.keys() == loaded.keys()
    norms = torch.rand(4, len(_groups(rule)), dtype=torch.float64) * 5
    assert torch.equal(rule.weights(norms, state, {}), rule.weights(norms, loaded, {}))
    assert torch.equal(rule.scale(state), rule.scale(loaded))


@pytest.mark.parametrize("name", RULES)
def test_every_option_names_its_file_and_its_unit(name):
    rule = RULES[name]
    assert rule.name == name.split("-")[0]
    assert rule.unit == "record"


def test_one_group_is_flat_clipping():
    groups = Groups(("all",), (("w",),), (7,))
    flat = Flat("flat", "record", 1.5)
    layered = PerLayer("per_layer", "record", 1.5, "uniform", None, "weighted", "layer")
    norms = torch.tensor([[0.0], [1.0], [9.0]], dtype=torch.float64)
    a, b = flat.bind(groups, 1.0, 1.0), layered.bind(groups, 1.0, 1.0)
    assert torch.allclose(flat.weights(norms, a, {}), layered.weights(norms, b, {}))
    assert torch.allclose(flat.scale(a), layered.scale(b))


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        ("global", [2**0.5, 2**0.5]),
        ("equal_budget", [2**0.5, 2**0.5]),
        # γ = C/√d with d = 4, 1: scale_g = γ_g·√(Σ d_j) = γ_g·√5.
        ("weighted", [5**0.5 / 2, 5**0.5]),
    ],
)
def test_scales_are_those_of_the_formulas(noise, expected):
    groups = Groups(("a", "b"), (("a",), ("b",)), (4, 1))
    rule = PerLayer("per_layer", "record", 2**0.5, "uniform", None, noise, "layer")
    scale = rule.scale(rule.bind(groups, 1.0, 1.0))
    assert scale.tolist() == pytest.approx(expected)


@dataclass(frozen=True)
class BatchMax(Flat):
    """Planted: weights divided by the largest norm of the batch."""

    def weights(self, norms, state, info):
        return self.norm / norms.max().clamp_min(1e-9).expand_as(norms)


@dataclass(frozen=True)
class ForgottenRootG(PerLayer):
    """Planted: every layer gets the whole C, and the noise is that of C."""

    def bind(self, groups, noise_multiplier, expected_units):
        whole = torch.full((len(groups),), float(self.norm), dtype=torch.float64)
        return {"threshold": whole, "scale": whole}


def test_a_batch_max_normaliser_is_caught():
    with pytest.raises(AssertionError):
        check_rows(BatchMax("x", "record", 1.0), torch.tensor([[1.0], [4.0]]).double())


def test_a_forgotten_root_g_is_caught():
    rule = ForgottenRootG("x", "record", 1.0, "uniform", None, "global", "layer")
    with pytest.raises(AssertionError):
        check_envelope(rule, torch.full((1, 3), 9.0, dtype=torch.float64))


class _Constant:
    """Units whose gradient of one parameter is known."""

    def __init__(self, values):
        self.values = values
        self.losses = values[:, 0]

    def norms(self):
        return self.values.norm(dim=1, keepdim=True)

    def weighted_sum(self, weights):
        return {"w": (weights * self.values).sum(0)}


def check_denominator(step):
    groups = Groups(("all",), (("w",),), (2,))
    rule = Flat("flat", "record", 1.0)
    state = rule.bind(groups, 0.0, 10.0)
    for units in (0, 1, 3, 40):
        values = torch.tensor([[0.3, 0.4]]).repeat(units, 1)
        result = step(
            _Constant(values), rule, state, groups, clipping=True, noise_multiplier=0.0,
            expected_units=10.0, generator=torch.Generator(),
        )  # fmt: skip
        expected = torch.tensor([0.3, 0.4]) * units / 10
        assert torch.allclose(result.mean["w"], expected, atol=1e-4)


def test_the_denominator_is_the_expected_number_of_units():
    check_denominator(private_step)


def test_a_realised_denominator_is_caught():
    def realised(gradients, *args, **kwargs):
        kwargs["expected_units"] = max(len(gradients.norms()), 1)
        return private_step(gradients, *args, **kwargs)

    with pytest.raises(AssertionError):
        check_denominator(realised)
