"""A rule with queries beside it keeps the contract of every rule; neither knows of the other."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_contract import (
    RULES,
    UNITS,
    batch,
    batches,
    build,
    check_envelope,
    check_rows,
    check_scale_is_of_the_state_alone,
    check_state_moves_by_the_answer_alone,
    columns,
    groups_of,
    histories,
    info_of,
    memberships,
    one_slice,
)

from dpsgd.clipping import envelope
from dpsgd.clipping.checks import is_shipped
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.joint import Joint, beside, cut
from dpsgd.errors import ConfigError
from dpsgd.telemetry.counts import PURPOSE, SliceCounts

BOUNDED = [name for name, rule in RULES.items() if rule.bounded and "-" not in name]
SIGMA = 0.8
SHARE = 0.05

every_rule = pytest.mark.parametrize("name", BOUNDED)


@dataclass(frozen=True)
class Wild:
    """Columns of any size, not all of them finite: what is asked is not trusted."""

    purpose: str = "wild"
    columns: int = 2
    sensitivity: float = 0.5

    def ask(self, norms, weights, info):
        return torch.stack([norms[..., 0] * 1e9 - 3, weights[..., 0] / norms[..., 0]], dim=-1)


def counts(rule, slices=3, most=2, of_groups=True):
    return SliceCounts(slices, len(groups_of(rule)), most, of_groups)


def joint(rule, *more, share=SHARE):
    queries = (counts(rule), *more)
    return Joint(rule, queries, (share,) * len(queries))


def asked(rule, members):
    members = torch.as_tensor(members)
    return info_of(rule, members) | {PURPOSE: members}


def after(rule, history):
    state = rule.bind(groups_of(rule), SIGMA, UNITS)
    for answer in history:
        own = columns(rule.rule, state)
        whole = torch.zeros(own + sum(q.columns for q in rule.queries)).double()
        whole[:own] = torch.tensor(answer[:own])
        state = rule.update(state, whole)
    return state


@every_rule
@settings(max_examples=10, deadline=None)
@given(rows=batches, members=memberships, history=histories)
def test_no_unit_leaves_the_envelope(name, rows, members, history):
    rule = joint(RULES[name], Wild())
    info = asked(rule, members[: len(rows)])
    check_envelope(rule, batch(rule, rows), after(rule, history), info)


@every_rule
@settings(max_examples=10, deadline=None)
@given(rows=batches, members=memberships, history=histories)
def test_a_row_is_weighted_and_asked_by_itself(name, rows, members, history):
    rule = joint(RULES[name], Wild())
    check_rows(rule, batch(rule, rows), after(rule, history), asked(rule, members[: len(rows)]))


@every_rule
def test_the_envelope_is_reached_so_that_no_noise_is_wasted(name):
    rule = joint(RULES[name])
    state = after(rule, [])
    norms = torch.logspace(-25, 25, 20_000, dtype=torch.float64)[:, None]
    norms = norms.expand(-1, len(groups_of(rule)))
    reached = 0.0
    for members in ([1, 1, 0], [1, 0, 1], [0, 1, 1]):
        every = torch.tensor(members).bool().expand(len(norms), -1)
        partition = one_slice(rule, len(norms), members.index(1))
        reached = max(
            reached, float(envelope(rule, norms, state, partition | {PURPOSE: every}).max())
        )
    assert reached == pytest.approx(1.0, abs=0.015)


@every_rule
def test_scales_are_of_the_state_alone_and_the_state_is_the_rules(name):
    inner = RULES[name]
    rule = Joint(inner, (Wild(),), (SHARE,))
    state = after(rule, [[0.1] * 6])
    assert state.keys() == inner.bind(groups_of(inner), SIGMA, UNITS).keys()
    check_scale_is_of_the_state_alone(rule, state)
    check_state_moves_by_the_answer_alone(rule, state)


@every_rule
def test_scales_grow_by_what_is_taken(name):
    inner = RULES[name]
    rule = joint(inner, Wild())
    state = after(rule, [])
    alone = inner.bind(groups_of(inner), SIGMA / math.sqrt(1 - 2 * SHARE), UNITS)
    assert rule.bind(groups_of(inner), SIGMA, UNITS).keys() == alone.keys()
    grown = inner.scale(alone) / math.sqrt(1 - 2 * SHARE)
    assert torch.allclose(rule.scale(state), grown, rtol=1e-12)
    assert rule.threshold(state) == inner.threshold(alone)


@every_rule
def test_as_the_share_goes_to_zero_it_is_the_rule(name):
    inner = RULES[name]
    rule = joint(inner, share=1e-12)
    state, alone = after(rule, []), inner.bind(groups_of(inner), SIGMA, UNITS)
    norms = torch.rand(50, len(groups_of(inner)), dtype=torch.float64) * 10
    info = one_slice(inner, 50) | {PURPOSE: torch.ones(50, 3).bool()}
    assert torch.equal(rule.weights(norms, state, info), inner.weights(norms, alone, info))
    assert torch.allclose(rule.scale(state), inner.scale(alone), rtol=1e-9)
    own = columns(inner, alone)
    found = rule.query(norms, state, info)[:, :own]
    assert torch.allclose(found * inner.query_scale(alone), inner.query(norms, alone, info))


@every_rule
def test_each_gets_its_own_part_of_the_answer_in_its_own_units(name):
    inner = RULES[name]
    rule = joint(inner, Wild())
    state = after(rule, [])
    norms = torch.rand(20, len(groups_of(inner)), dtype=torch.float64) * 5
    info = one_slice(inner, 20) | {PURPOSE: torch.eye(3).repeat(7, 1)[:20].bool()}
    answer = rule.query(norms, state, info).sum(0) / UNITS
    moved = inner.update(state, inner.query(norms, state, info).sum(0) / UNITS)
    for key, value in rule.update(state, answer).items():
        assert torch.allclose(value, moved[key], rtol=1e-9), key
    weights = inner.weights(norms, state, info)
    for query in rule.queries:
        expected = cut(query.ask(norms, weights, info), query.sensitivity).sum(0) / UNITS
        assert torch.allclose(beside(rule, answer)[query.purpose], expected.double(), rtol=1e-9)
    assert beside(inner, answer) == {}


@every_rule
def test_the_shares_of_all_parts_add_up_to_one(name):
    rule = joint(RULES[name], Wild())
    state = after(rule, [])
    shares = rule.shares(state)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares[PURPOSE] == shares["wild"] == SHARE
    asks = bool(len(RULES[name].query_scale(state)))
    assert ("clip query" in shares) == asks
    assert RULES[name].shares(state)["gradient"] == pytest.approx(shares["gradient"] / 0.9)


@every_rule
def test_every_part_fills_its_share_and_no_more(name):
    inner = RULES[name]
    rule = joint(inner)
    state = after(rule, [])
    norms = torch.logspace(-9, 9, 2000, dtype=torch.float64)[:, None]
    norms = norms.expand(-1, len(groups_of(inner)))
    info = one_slice(inner, len(norms)) | {PURPOSE: torch.ones(len(norms), 3).bool()}
    own = columns(inner, state)
    found = rule.query(norms, state, info) / rule.query_scale(state)
    weighted = rule.weights(norms, state, info) * norms / rule.scale(state)
    parts = {"gradient": weighted, "clip query": found[:, :own], PURPOSE: found[:, own:]}
    for purpose, share in rule.shares(state).items():
        assert float(parts[purpose].square().sum(1).max()) <= share * (1 + 1e-9)


@dataclass(frozen=True)
class Forgotten(Joint):
    """The gradient's scale does not grow for what is asked beside it."""

    def scale(self, state):
        return self.rule.scale(state)


def test_forgetting_the_growth_is_seen():
    rule = Forgotten(RULES["flat"], (counts(RULES["flat"]),), (SHARE,))
    norms = torch.tensor([[5.0]]).double()
    members = torch.tensor([[True, True, False]])
    left = envelope(rule, norms, after(rule, []), {PURPOSE: members})
    assert float(left.max()) == pytest.approx(1.05)
    with pytest.raises(AssertionError):
        check_envelope(rule, norms, after(rule, []), {PURPOSE: members})


@pytest.mark.parametrize("shares", [(0.0,), (-0.1,), (1.0,), (math.nan,), (0.5, 0.5)])
def test_shares_that_leave_nothing_are_refused(shares):
    with pytest.raises(ConfigError, match="share"):
        Joint(RULES["flat"], (counts(RULES["flat"]),) * len(shares), shares)


def test_a_rule_whose_own_queries_need_the_rest_is_refused():
    # ρ = (σ/2σ_b)² = 0.9604, which leaves less than a share of 0.05.
    rule = build("adaptive", count_noise=SIGMA / 2 / 0.98)
    rule.bind(groups_of(rule), SIGMA, UNITS)
    joint(rule, share=0.03).bind(groups_of(rule), SIGMA, UNITS)
    with pytest.raises(ConfigError, match=r"count_noise.*(?s:.)*share of 0\.05"):
        joint(rule, share=0.05).bind(groups_of(rule), SIGMA, UNITS)


def test_the_noise_on_a_rules_own_counts_is_what_was_asked_for():
    rule = joint(build("adaptive", count_noise=3.0))
    state = after(rule, [])
    shares = rule.shares(state)
    assert SIGMA * 0.5 / math.sqrt(shares["clip query"]) == pytest.approx(3.0)


def test_nothing_is_asked_where_nothing_is_noised():
    with pytest.raises(ConfigError, match="noise_multiplier"):
        joint(RULES["flat"]).bind(groups_of(RULES["flat"]), 0.0, UNITS)
    with pytest.raises(ConfigError, match="bounds nothing"):
        joint(RULES["none"])


def test_a_rule_or_query_of_ones_own_is_looked_at_in_every_step():
    @dataclass(frozen=True)
    class Own(Flat):
        pass

    own = Own("own", "record", 1.0)
    assert is_shipped(Joint(RULES["flat"], (counts(own),), (SHARE,)))
    assert not is_shipped(Joint(own, (counts(own),), (SHARE,)))
    assert not is_shipped(Joint(RULES["flat"], (Wild(),), (SHARE,)))


@given(
    rows=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=6),
    groups=st.integers(1, 3), of_groups=st.booleans(), most=st.integers(1, 5),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_a_unit_counts_once_in_each_of_its_slices_within_the_declared_norm(
    rows, groups, of_groups, most
):
    query = SliceCounts(4, groups, most, of_groups)
    norms = torch.rand(len(rows), groups) + 0.1
    weights = torch.where(torch.rand(len(rows), groups) < 0.5, 0.5, 1.0)
    members = torch.tensor(rows)
    found = query.ask(norms, weights, {PURPOSE: members})
    assert found.shape == (len(rows), query.columns)
    pairs = found.view(len(rows), 4, query.counted, 2)
    assert torch.equal(pairs.sum(-1), members[..., None].expand(-1, -1, query.counted).float())
    clipped = (weights < 1).any(1)
    assert torch.equal(pairs[:, :, -1, 0], (members & clipped[:, None]).float())
    if query.counted > 1:
        assert torch.equal(pairs[:, :, :-1, 0].bool(), members[..., None] & (weights < 1)[:, None])
    inside = members.sum(1) <= most
    assert (found[inside].norm(dim=1) <= query.sensitivity * (1 + 1e-6)).all()
    assert (cut(found, query.sensitivity).norm(dim=1) <= query.sensitivity * (1 + 1e-6)).all()
    assert torch.equal(cut(found, query.sensitivity)[inside], found[inside])


def test_the_declared_norm_is_met_exactly():
    for groups, of_groups in ((1, False), (3, False), (3, True)):
        query = SliceCounts(4, groups, 3, of_groups)
        one = query.ask(
            torch.ones(1, groups), torch.ones(1, groups), {PURPOSE: torch.tensor([[1, 1, 1, 0]])}
        )
        assert float(one.norm()) == pytest.approx(query.sensitivity)


def test_a_unit_that_is_not_clipped_by_the_safety_factor_counts_as_whole():
    query = SliceCounts(1, 1, 1, of_groups=False)
    info = {PURPOSE: torch.ones(4, 1)}
    weights = torch.tensor([[1.0], [1 - 2e-7], [1 - 1e-4], [0.0]])
    norms = torch.tensor([[1.0], [1.0], [1.0], [0.0]])
    assert query.ask(norms, weights, info)[:, 0].tolist() == [0, 0, 1, 0]


def test_names_and_groups_are_those_of_the_rule():
    inner = replace(RULES["per_layer"], unit="user")
    rule = joint(inner)
    assert (rule.name, rule.unit) == ("per_layer", "user")
    assert (rule.granularity, rule.partition) == (inner.granularity, inner.partition)
