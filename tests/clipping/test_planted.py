"""Mistakes made elsewhere, planted here: the contract's checks must see every one."""

from dataclasses import dataclass

import pytest
import torch
from rule_contract import (
    build,
    check_answer_is_noised,
    check_denominator,
    check_envelope_everywhere,
    check_finds_the_quantile,
    check_rows,
    check_scale_is_of_the_state_alone,
    check_state_moves_by_the_answer_alone,
    first_state,
    one_slice,
    state_after,
)

from dpsgd.clipping import envelope
from dpsgd.clipping.adaptive import Adaptive
from dpsgd.clipping.adaptive_per_layer import AdaptivePerLayer
from dpsgd.clipping.automatic import Automatic
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.global_adapt import GlobalAdapt
from dpsgd.clipping.group_thresholds import GroupThresholds
from dpsgd.clipping.per_layer import PerLayer
from dpsgd.training.step import private_step

UNEQUAL = [[0.2, 0.1, 0.0, 0.0, 0.1, 0.4]]


def _planted(cls, name, **change):
    """The rule of a yaml, with one thing wrong."""
    right = build(name, **change)
    return cls(**{field: getattr(right, field) for field in right.__dataclass_fields__})


@dataclass(frozen=True)
class BatchMax(Flat):
    """Weights are divided by the largest norm of the batch."""

    def weights(self, norms, state, info):
        return self.norm / norms.max().clamp_min(1e-9).expand_as(norms)


@dataclass(frozen=True)
class BatchShare(Adaptive):
    """A unit's bit says whether it is below the batch's mean."""

    def query(self, norms, state, info):
        return (norms <= norms.mean()).to(norms) - 0.5


@dataclass(frozen=True)
class ForgottenRootG(PerLayer):
    """Every layer gets the whole C, and the noise is that of C."""

    def bind(self, groups, noise_multiplier, expected_units):
        whole = torch.full((len(groups),), float(self.norm), dtype=torch.float64)
        return {"threshold": whole, "scale": whole}


@dataclass(frozen=True)
class ForgottenGrowth(Adaptive):
    """The bit takes its share, and the gradient's noise does not grow."""

    def scale(self, state):
        return state["threshold"]


@dataclass(frozen=True)
class OneBitOfG(AdaptivePerLayer):
    """G bits are noised as if a unit answered with one."""

    def query_scale(self, state):
        return 0.5 / state["share"].sqrt()


@dataclass(frozen=True)
class StaleScale(AdaptivePerLayer):
    """The noise is still that of the thresholds at the start."""

    def bind(self, groups, noise_multiplier, expected_units):
        state = super().bind(groups, noise_multiplier, expected_units)
        return {**state, "start": super().scale(state)}

    def scale(self, state):
        return state["start"]


@dataclass(frozen=True)
class Uncentred(Adaptive):
    """A 0/1 count with the formula of a centred one."""

    def query(self, norms, state, info):
        return (norms <= state["threshold"]).to(norms)


@dataclass(frozen=True)
class UncentredGlobal(GlobalAdapt):
    """A 0/1 count with the formula of a centred one."""

    def query(self, norms, state, info):
        return (norms > self.tau * state["bound"]).to(norms)


@dataclass(frozen=True)
class InvertedBit(Adaptive):
    """The bit says 1 above the threshold: C runs away from the quantile."""

    def query(self, norms, state, info):
        return -super().query(norms, state, info)


@dataclass(frozen=True)
class PresentGroups(GroupThresholds):
    """The noise is that of the largest threshold among the groups of the batch."""

    def weights(self, norms, state, info):
        present = info[self.slice_kind].sum(0) > 0
        object.__setattr__(self, "_largest", state["threshold"][present].max())
        return super().weights(norms, state, info)

    def scale(self, state):
        return (self._largest / (1 - state["share"]).sqrt()).reshape(1)


@dataclass(frozen=True)
class MeanThreshold(GroupThresholds):
    """The noise is that of the mean threshold."""

    def scale(self, state):
        return (state["threshold"].mean() / (1 - state["share"]).sqrt()).reshape(1)


@dataclass(frozen=True)
class CountedTwice(GroupThresholds):
    """A unit of several groups counts whole in each."""

    def query(self, norms, state, info):
        part = info[self.slice_kind].to(norms)
        over = (norms > self.norm).to(norms)
        return torch.cat([part * over, part * (1 - over)], dim=-1)


@dataclass(frozen=True)
class BeforeTheNoise(Adaptive):
    """The threshold moves while it is asked, before the noise of the step is drawn."""

    def query(self, norms, state, info):
        asked = super().query(norms, state, info)
        state["threshold"].mul_(torch.exp(-self.rate * asked.mean()))
        return asked


@dataclass(frozen=True)
class FromTheRawAnswer(Adaptive):
    """The threshold moves by the sum that was not noised."""

    def query(self, norms, state, info):
        asked = super().query(norms, state, info)
        object.__setattr__(self, "_raw", asked.mean(0))
        return asked

    def update(self, state, answer):
        return super().update(state, self._raw)


@dataclass(frozen=True)
class NoFloor(Automatic):
    """C/n, with a norm that may have underflowed."""

    def weights(self, norms, state, info):
        return state["threshold"].to(norms) / norms


@pytest.mark.parametrize(
    ("rule", "history"),
    [
        (_planted(ForgottenRootG, "per_layer"), []),
        (_planted(ForgottenGrowth, "adaptive"), []),
        (_planted(OneBitOfG, "adaptive_per_layer"), []),
        (_planted(StaleScale, "adaptive_per_layer"), [[-0.5] * 3]),
        (_planted(Uncentred, "adaptive"), []),
        (_planted(UncentredGlobal, "global_adapt", bound=1.0, tau=0.7), []),
        (_planted(MeanThreshold, "group_thresholds"), UNEQUAL),
        (_planted(CountedTwice, "group_thresholds"), []),
        (_planted(NoFloor, "automatic"), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_leaves_the_envelope_is_caught(rule, history):
    check_envelope_everywhere(build(rule.name), state_after(build(rule.name), history))
    state = state_after(rule, history)
    with pytest.raises(AssertionError):
        check_envelope_everywhere(rule, state)


def test_an_uncentred_count_is_as_wrong_as_published():
    # m = 32: σ_b = 1.6; the multiplier of the joint release is .879 where 1 is claimed.
    rule = _planted(Uncentred, "adaptive", count_noise=1.6)
    state = first_state(rule)
    worst = envelope(rule, state["threshold"].reshape(1, 1), state, {})
    assert float(worst) ** -0.5 == pytest.approx(0.879, abs=5e-4)


@pytest.mark.parametrize(
    "rule", [_planted(BatchMax, "flat"), _planted(BatchShare, "adaptive")],
    ids=lambda rule: type(rule).__name__,
)  # fmt: skip
def test_what_looks_at_other_units_is_caught(rule):
    with pytest.raises(AssertionError):
        check_rows(
            rule, torch.tensor([[1.0], [4.0]]).double(), first_state(rule), one_slice(rule, 2)
        )


def test_the_largest_threshold_of_the_groups_in_the_batch_is_caught():
    rule = _planted(PresentGroups, "group_thresholds")
    check_envelope_everywhere(build("group_thresholds"), state_after(rule, UNEQUAL))
    with pytest.raises(AssertionError):
        check_scale_is_of_the_state_alone(rule, state_after(rule, UNEQUAL))


@pytest.mark.parametrize("cls", [BeforeTheNoise, FromTheRawAnswer])
def test_a_threshold_that_saw_the_raw_answer_is_caught(cls):
    rule = _planted(cls, "adaptive")
    with pytest.raises(AssertionError):
        check_state_moves_by_the_answer_alone(rule, first_state(rule))


def test_an_inverted_bit_is_caught():
    with pytest.raises(AssertionError):
        check_finds_the_quantile(_planted(InvertedBit, "adaptive"))


def test_a_realised_denominator_is_caught():
    def realised(batches, *args, **kwargs):
        kwargs["expected_units"] = max(sum(len(b.norms()) for b in batches), 1)
        return private_step(batches, *args, **kwargs)

    with pytest.raises(AssertionError):
        check_denominator(realised)


def test_a_step_that_hands_out_the_raw_answer_is_caught():
    def raw(batches, rule, state, groups, info, **kwargs):
        result = private_step(batches, rule, state, groups, info, **kwargs)
        asked = rule.query(batches[0].norms(), state, info).double().sum(0)
        return result._replace(answer=asked / kwargs["expected_units"])

    with pytest.raises(AssertionError):
        check_answer_is_noised(raw)
