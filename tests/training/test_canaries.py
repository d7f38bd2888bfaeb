"""Gradient canaries: they fill what a rule lets one unit do, and are read where they were put."""

import numpy as np
import pytest
import torch
from planted_training import net
from torch import nn

from dpsgd.clipping.flat import Flat
from dpsgd.clipping.per_layer import PerLayer
from dpsgd.engine import clip_groups
from dpsgd.errors import ConfigError
from dpsgd.experiment.options import config_folder
from dpsgd.experiment.parts import default_part
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw
from dpsgd.training.canaries import Canaries, CanaryUnits
from dpsgd.training.step import SAFETY, private_step

RULES = {
    file.stem: default_part("clip", file.stem)
    for file in sorted((config_folder("conf") / "clip").glob("*.yaml"))
    if file.stem != "none"
}
COUNT, SIGMA, EXPECTED = 12, 1.1, 200.0


def canaries_of(rule, model=None, count=COUNT, records=1):
    model = net(torch.float32) if model is None else model
    like = {n: p.detach() for n, p in model.named_parameters()}
    groups = clip_groups(model, rule.granularity)
    units = CanaryUnits.of(100, count, like, groups, Streams.from_seed(0, "a run"), records)
    return Canaries(units, like, 0.1, SIGMA), groups


def one_info(rule):
    return {} if rule.partition is None else {rule.partition: torch.tensor([[True, False]])}


@pytest.mark.parametrize("name", RULES)
def test_a_canary_fills_the_envelope_of_every_rule(name):
    rule = RULES[name]
    canaries, groups = canaries_of(rule)
    state = rule.bind(groups, SIGMA, EXPECTED)
    batch = canaries.batch(torch.arange(3), rule, state, one_info(rule))
    norms = batch.norms()
    info = {key: value.expand(3, -1) for key, value in one_info(rule).items()}
    parts = rule.weights(norms, state, info) * norms / rule.scale(state)
    filled = parts.double().square().sum(1)
    query = rule.query(norms, state, info)
    if query.shape[-1]:
        filled = filled + (query / rule.query_scale(state)).square().sum(1)
    # `global` wants one norm exactly, and those that are tried are .6 % apart.
    assert filled.min() > 0.98
    assert filled.max() <= 1 + 1e-6


def test_a_bound_that_moved_far_up_is_still_reached():
    rule = RULES["global_adapt"]
    canaries, groups = canaries_of(rule)
    state = dict(rule.bind(groups, SIGMA, EXPECTED))
    moved = state | {"bound": state["bound"] * 1e9}
    norms = canaries.batch(torch.arange(1), rule, moved, {}).norms()
    parts = rule.weights(norms, moved, {}) * norms / rule.scale(moved)
    assert float(parts) > 0.98


@pytest.mark.parametrize("name", sorted(set(RULES) - {"global"}))
def test_a_canary_is_clipped_by_far_wherever_that_costs_it_nothing(name):
    rule = RULES[name]
    canaries, groups = canaries_of(rule)
    state = rule.bind(groups, SIGMA, EXPECTED)
    batch = canaries.batch(torch.arange(1), rule, state, one_info(rule))
    assert float((batch.norms() / rule.scale(state)).max()) > 300


@pytest.mark.parametrize(
    "rule",
    [Flat("flat", "record", 0.5),
     PerLayer("per_layer", "record", 0.5, "uniform", None, "global", "layer")],
)  # fmt: skip
def test_a_step_without_noise_is_read_as_one_where_a_canary_was_and_nought_elsewhere(rule):
    canaries, groups = canaries_of(rule)
    state = rule.bind(groups, SIGMA, EXPECTED)
    drawn = torch.tensor([1, 4])
    result = private_step(
        [canaries.batch(drawn, rule, state, {})], rule, state, groups, {}, clipping=True,
        noise_multiplier=0.0, expected_units=EXPECTED, generator=torch.Generator(),
    )  # fmt: skip
    canaries.read(result, EXPECTED)
    inside = torch.zeros(COUNT, dtype=torch.bool)
    inside[drawn] = True
    one = np.log1p(0.1 * np.expm1(1 / (2 * SIGMA**2)))
    none = np.log1p(0.1 * np.expm1(-1 / (2 * SIGMA**2)))
    assert canaries.reading.scores[inside] == pytest.approx(one, rel=1e-3)
    assert canaries.reading.scores[~inside] == pytest.approx(none, rel=1e-3)
    assert SAFETY < 1


def test_canaries_of_a_draw_are_taken_out_of_it_and_those_out_are_not_there():
    canaries, _ = canaries_of(Flat("flat", "record", 0.5))
    included = canaries.units.included.nonzero().flatten()
    members = torch.tensor([3, 7, *range(100, 100 + COUNT)])
    draw = Draw(members, torch.arange(len(members)), members)
    data, drawn = canaries.apart(draw)
    assert data.members.tolist() == data.records.tolist() == [3, 7]
    assert data.unit.tolist() == [0, 1]
    assert drawn.tolist() == included.tolist()
    assert 0 < len(included) < COUNT


def test_a_canary_of_several_records_is_there_as_often_as_they_were_drawn():
    rule = Flat("flat", "record", 0.5)
    canaries, groups = canaries_of(rule, records=3)
    one, other = canaries.units.included.nonzero().flatten()[:2].tolist()
    members = torch.tensor([4, 100 + 3 * one, 100 + 3 * one + 2, 100 + 3 * other])
    data, drawn = canaries.apart(Draw(members, torch.arange(4), members))
    assert data.members.tolist() == [4]
    assert drawn.tolist() == [one, one, other]
    state = rule.bind(groups, SIGMA, EXPECTED)
    total = canaries.batch(drawn, rule, state, {}).weighted_sum(torch.ones(3, 1))
    flat = total[canaries.units.holders[0]].view(-1)[canaries.units.places[:, 0]]
    assert float(flat[one] / flat[other]) == pytest.approx(2.0)


def test_users_keep_their_records_when_canaries_are_taken_out_of_any_order():
    canaries, _ = canaries_of(Flat("flat", "record", 0.5))
    members = torch.tensor([101, 2, 103, 5])  # users 2 and 5, of two records and one
    draw = Draw(torch.tensor([20, 21, 50]), torch.tensor([1, 1, 3]), members)
    data, _ = canaries.units.split(draw)
    assert data.members.tolist() == [2, 5]
    assert data.records.tolist() == [20, 21, 50]
    assert data.unit.tolist() == [0, 0, 1]


def test_no_two_canaries_meet_in_a_coordinate():
    canaries, _ = canaries_of(Flat("flat", "record", 0.5), count=20)
    assert len(set(canaries.units.places[:, 0].tolist())) == 20


def test_more_canaries_than_coordinates_are_refused_with_the_largest_number():
    with pytest.raises(ConfigError, match="at most 30"):
        canaries_of(Flat("flat", "record", 0.5), count=31)
    assert max(p.numel() for p in net().parameters()) == 30
    assert isinstance(net()[0], nn.Linear)
