from dataclasses import dataclass

import pytest
import torch
from planted_training import engine
from torch import nn

from dpsgd.clipping import Groups
from dpsgd.clipping.adaptive import Adaptive
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.none import NoClipping
from dpsgd.clipping.rule import clip_factor
from dpsgd.engine import clip_groups
from dpsgd.errors import PrivacyError
from dpsgd.noise import gaussian_noise
from dpsgd.telemetry.reduce import reduce_window
from dpsgd.training.loss import cross_entropy
from dpsgd.training.optim import SGD
from dpsgd.training.step import private_step


def _gradients(units=6):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    groups = clip_groups(model, "all")
    inputs, targets = torch.randn(units, 16), torch.randint(5, (units,))
    captured = engine().capture(model, cross_entropy, inputs, targets, groups, None)
    return captured, groups, model, inputs, targets


def _step(gradients, groups, rule, sigma, m=8.0, clipping=True):
    state = rule.bind(groups, sigma, m)
    return private_step(
        [gradients], rule, state, groups, {}, clipping=clipping, noise_multiplier=sigma,
        expected_units=m, generator=torch.Generator().manual_seed(1),
    )  # fmt: skip


def test_without_noise_and_bound_it_is_plain_sgd():
    gradients, groups, model, inputs, targets = _gradients()
    result = _step(gradients, groups, NoClipping("none", "record"), 0.0, m=6.0, clipping=False)
    cross_entropy(model(inputs), targets).mean().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(result.mean[name], parameter.grad, atol=1e-6)


def test_no_unit_contributes_more_than_c():
    gradients, groups, *_ = _gradients()
    result = _step(gradients, groups, Flat("flat", "record", 0.05), 0.0)
    assert (result.norms * result.weights <= 0.05).all()
    assert (result.weights < 1).all()


@pytest.mark.parametrize("units", [0, 6])
def test_noise_is_sigma_c_over_the_expected_units(units):
    gradients, groups, *_ = _gradients(units)
    rule, state = Flat("flat", "record", 2.0), {}
    state = rule.bind(groups, 3.0, 8.0)
    squares, count = 0.0, 0
    for seed in range(200):
        noise = private_step(
            [gradients], rule, state, groups, {}, clipping=True, noise_multiplier=3.0,
            expected_units=8.0, generator=torch.Generator().manual_seed(seed),
        ).noise  # fmt: skip
        squares += sum(float(v.square().sum()) for v in noise.values())
        count += sum(v.numel() for v in noise.values())
    # The relative sd of this variance is √(2/17000) = 1.1 %: 0.9 and 1.1 would be rejected.
    assert squares / count == pytest.approx((3.0 * 2.0 / 8.0) ** 2, rel=0.05)


def test_noise_under_no_bound_is_refused():
    gradients, groups, *_ = _gradients()
    with pytest.raises(PrivacyError, match="scale"):
        _step(gradients, groups, NoClipping("none", "record"), 1.0)


def test_a_gradient_that_is_not_finite_stops_the_step():
    class Bad:
        losses = torch.zeros(3)

        def norms(self):
            return torch.tensor([[1.0], [float("nan")], [2.0]])

    with pytest.raises(PrivacyError, match="position 1"):
        _step(Bad(), Groups(("all",), (("w",),), (1,)), Flat("flat", "record", 1.0), 1.0)


class _Known:
    """Three units whose norms are known, in two clip groups."""

    losses = torch.zeros(3)

    def norms(self):
        return torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.1, 0.1]])

    def weighted_sum(self, weights):
        return {"a": (weights[:, :1] * torch.ones(3, 2)).sum(0), "b": weights[:, 1].sum()}


@dataclass(frozen=True)
class Wrong(Flat):
    """A rule whose weights are what the test says."""

    factor: float

    def bind(self, groups, noise_multiplier, expected_units):
        return {"threshold": torch.full((len(groups),), self.norm, dtype=torch.float64)}

    def weights(self, norms, state, info):
        return torch.full_like(norms, self.factor)


TWO = Groups(("a", "b"), (("a",), ("b",)), (2, 1))


@pytest.mark.parametrize("factor", [1.0, float("nan"), float("inf"), -0.1])
def test_a_unit_outside_the_declared_envelope_stops_the_step(factor):
    with pytest.raises(PrivacyError, match="clip=wrong"):
        _step(_Known(), TWO, Wrong("wrong", "record", 1.0, factor), 1.0)


def test_a_forgotten_root_g_stops_the_step():
    @dataclass(frozen=True)
    class PerTensor(Wrong):
        def weights(self, norms, state, info):
            return clip_factor(norms, state["threshold"])

    with pytest.raises(PrivacyError, match="envelope"):
        _step(_Known(), TWO, PerTensor("wrong", "record", 1.0, 1.0), 1.0)


def test_a_rule_that_looks_at_other_units_stops_the_step():
    @dataclass(frozen=True)
    class BatchMax(Flat):
        def weights(self, norms, state, info):
            return (self.norm / norms.max().clamp_min(1e-9)).expand_as(norms)

    class Ladder(_Known):
        def norms(self):
            return torch.tensor([[3.0], [0.1], [0.2]])

        def weighted_sum(self, weights):
            return {"w": weights.sum(0)}

    groups = Groups(("all",), (("w",),), (1,))
    with pytest.raises(PrivacyError, match="weight of a unit depends on the other units"):
        _step(Ladder(), groups, BatchMax("mine", "record", 1.0), 1.0)


def test_queries_are_answered_with_the_noise_of_the_same_sigma():
    rule = Adaptive("adaptive", "record", norm=1.0, quantile=0.5, rate=0.2, count_noise=3.0)
    groups = Groups(("all",), (("w",),), (1,))

    class One(_Known):
        def norms(self):
            return torch.tensor([[0.5], [0.6], [7.0]])

        def weighted_sum(self, weights):
            return {"w": weights.sum(0)}

    state, answers = rule.bind(groups, 2.0, 8.0), []
    for seed in range(400):
        answers.append(
            private_step(
                [One()], rule, state, groups, {}, clipping=True, noise_multiplier=2.0,
                expected_units=8.0, generator=torch.Generator().manual_seed(seed),
            ).answer
        )  # fmt: skip
    found = torch.cat(answers)
    # Two bits of +½ and one of -½; noise σ_b = 3 on the count, over 8 expected units.
    assert float(found.mean()) == pytest.approx(0.5 / 8, abs=5 * 3 / 8 / 20)
    assert float(found.std()) == pytest.approx(3 / 8, rel=0.15)


def test_noise_is_not_rounded_away_in_narrow_parameters():
    like = {"stem": torch.zeros(1000, dtype=torch.float16), "head": torch.zeros(1000)}
    groups = Groups(("all",), (("stem", "head"),), (2000,))
    noise = gaussian_noise(like, groups, [1e-8], torch.Generator())
    assert noise["head"].dtype == torch.float32
    assert float(noise["head"].std()) == pytest.approx(1e-8, rel=0.2)


def test_noise_only_moves_parameters_by_the_noise_of_the_private_cell():
    optim = SGD("sgd", 0.5, 0.1, 0.9, "by_norm")
    private = optim.lr * optim.noise_factor("private", 4.0)
    assert optim.baseline_lr * optim.noise_factor("noise_only", 4.0) == pytest.approx(private)
    assert optim.gradient_factor("neither", 4.0) == optim.gradient_factor("noise_only", 4.0) == 1


def test_kept_and_clip_fraction_by_slice():
    norms = torch.tensor([[4.0], [1.0], [0.0]]).numpy()
    weights = torch.tensor([[0.25], [1.0], [1.0]]).numpy()
    membership = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0]]).bool().numpy()
    reduced = reduce_window(norms, weights, membership)
    assert reduced.units.tolist() == [3, 1, 0]
    assert reduced.clipped[:, -1].tolist() == [1, 1, 0]
    assert (reduced.after[:2, -1] / reduced.before[:2, -1]).tolist() == [2 / 5, 1 / 4]
    assert reduced.overall_clip_fraction() == pytest.approx(1 / 3)
