"""The contract of every rule in conf/clip."""

import pytest
import torch
from hypothesis import given, settings
from rule_contract import (
    NODES,
    RULES,
    SIGMA,
    UNITS,
    batch,
    batches,
    build,
    check_answer_is_noised,
    check_denominator,
    check_envelope,
    check_envelope_everywhere,
    check_rows,
    check_scale_is_of_the_state_alone,
    check_state_moves_by_the_answer_alone,
    columns,
    first_state,
    groups_of,
    histories,
    info_of,
    memberships,
    one_slice,
    state_after,
)

from dpsgd.clipping import envelope
from dpsgd.training.step import SAFETY, private_step

EXTREME = [0.0, 5e-324, 1e-45, 1e-38, 1e-30, 1e-12, 1.0, 1e30, 3e38]
MOVED = [[0.3, -0.2, 0.1, 0.1, 0.4, 0.2], [-0.4, 0.1, 0.3, 0.2, 0.1, 0.5]]

every_rule = pytest.mark.parametrize("name", RULES)


@every_rule
@settings(max_examples=20, deadline=None)
@given(rows=batches, members=memberships, history=histories)
def test_no_unit_leaves_the_envelope(name, rows, members, history):
    rule = RULES[name]
    info = info_of(rule, members[: len(rows)])
    check_envelope(rule, batch(rule, rows), state_after(rule, history), info)


@every_rule
def test_no_unit_leaves_the_envelope_at_the_edges(name):
    for history in ([], MOVED, [[1e9] * 6] * 700, [[-1e9] * 6] * 700):
        check_envelope_everywhere(RULES[name], state_after(RULES[name], history))


@every_rule
@settings(max_examples=20, deadline=None)
@given(rows=batches, members=memberships, history=histories)
def test_a_row_is_weighted_and_asked_by_itself(name, rows, members, history):
    rule = RULES[name]
    info = info_of(rule, members[: len(rows)])
    check_rows(rule, batch(rule, rows), state_after(rule, history), info)


@every_rule
@settings(max_examples=20, deadline=None)
@given(history=histories)
def test_every_state_has_scales_that_noise_can_have(name, history):
    rule = RULES[name]
    state = state_after(rule, history)
    scale, asked = rule.scale(state), rule.query_scale(state)
    assert scale.shape == (len(groups_of(rule)),)
    assert asked.numel() in (1, columns(rule, state))
    assert (scale > 0).all()
    assert (asked > 0).all()
    if rule.bounded:
        assert torch.isfinite(torch.cat([scale, asked])).all()
        assert scale.to(torch.float32).isfinite().all()


@every_rule
def test_without_noise_the_scale_is_that_of_the_weights_alone(name):
    rule = RULES[name]
    silent, noisy = first_state(rule, 0.0), first_state(rule, SIGMA)
    assert (rule.scale(silent) <= rule.scale(noisy)).all()
    assert torch.isfinite(rule.scale(silent)).all() == rule.bounded
    check_envelope_everywhere(rule, silent)


@every_rule
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", [None, 1e-20, 1e30])
def test_weights_are_finite_at_every_norm(name, dtype, norm):
    changed = {} if norm is None or NODES[name].get("norm") is None else {"norm": norm}
    rule = build(name, **changed)
    norms = batch(rule, [[n, n, n] for n in EXTREME], dtype)
    for history in ([], MOVED):
        state = state_after(rule, history)
        info = one_slice(rule, len(norms))
        weights, asked = rule.weights(norms, state, info), rule.query(norms, state, info)
        assert weights.dtype == asked.dtype == dtype
        assert weights.shape == norms.shape
        assert torch.isfinite(weights).all()
        assert (weights >= 0).all()
        assert torch.isfinite(asked).all()


@every_rule
@pytest.mark.parametrize("norm", [None, 1e-20, 1e20])
@pytest.mark.parametrize("flush", [False, True])
def test_norms_that_underflow_in_float32_leave_the_true_ones_inside(name, norm, flush):
    changed = {} if norm is None or NODES[name].get("norm") is None else {"norm": norm}
    rule = build(name, **changed)
    entries = torch.logspace(-45, 3, 300, dtype=torch.float64).to(torch.float32)[:, None]
    torch.set_flush_denormal(flush)
    try:
        reported = entries.expand(-1, 1000).square().sum(1, keepdim=True).sqrt()
    finally:
        torch.set_flush_denormal(False)
    true = entries.double() * 1000**0.5
    assert (reported[true < 1e-22] == 0).all()
    groups = len(groups_of(rule))
    reported, true = reported.expand(-1, groups), true.expand(-1, groups)
    info = one_slice(rule, len(true))
    for history in ([], MOVED, [[1e9] * 6] * 700):
        state = state_after(rule, history)
        contribution = rule.weights(reported, state, info).double() * SAFETY * true
        filled = (contribution / rule.scale(state)).square().sum(1)
        asked = rule.query(reported, state, info).double()
        if asked.shape[-1]:
            filled = filled + (asked / rule.query_scale(state)).square().sum(1)
        assert float(filled.max()) <= 1


@every_rule
def test_the_envelope_is_reached_so_that_no_noise_is_wasted(name):
    # A rule that drops or shrinks what is large is fullest at some norm between: hence a grid, on
    # which a rule that is full at one norm alone (global at Z) shows 0.99 or more.
    rule = RULES[name]
    state = state_after(rule, MOVED)
    norms = torch.logspace(-25, 25, 20_000, dtype=torch.float64)[:, None]
    norms = norms.expand(-1, len(groups_of(rule)))
    reached = max(
        float(envelope(rule, norms, state, one_slice(rule, len(norms), k)).max()) for k in range(3)
    )
    assert reached == pytest.approx(1.0 if rule.bounded else 0.0, abs=0.015)


@every_rule
def test_the_threshold_bounds_the_whole_contribution(name):
    rule = RULES[name]
    state = state_after(rule, MOVED)
    norms = torch.logspace(-3, 9, 200, dtype=torch.float64)[:, None]
    norms = norms.expand(-1, len(groups_of(rule)))
    for k in range(3):
        weights = rule.weights(norms, state, one_slice(rule, len(norms), k))
        assert float((weights * norms).norm(dim=1).max()) <= rule.threshold(state) * (1 + 1e-9)


@every_rule
def test_scales_are_of_the_state_alone(name):
    check_scale_is_of_the_state_alone(RULES[name], state_after(RULES[name], MOVED))


@every_rule
def test_the_state_moves_by_the_answer_alone(name):
    check_state_moves_by_the_answer_alone(RULES[name], state_after(RULES[name], MOVED))


@every_rule
@pytest.mark.parametrize("history", [[], MOVED])
def test_state_survives_a_checkpoint(name, history, tmp_path):
    rule = RULES[name]
    state = state_after(rule, history)
    torch.save(dict(state), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state.keys() == loaded.keys()
    assert all(value.dtype == torch.float64 for value in state.values())
    norms = torch.rand(4, len(groups_of(rule)), dtype=torch.float64) * 5
    info = one_slice(rule, 4)
    answer = torch.linspace(-0.4, 0.6, columns(rule, state), dtype=torch.float64)
    for function in (
        lambda s: rule.weights(norms, s, info),
        lambda s: rule.query(norms, s, info),
        rule.scale,
        rule.query_scale,
        lambda s: rule.scale(rule.update(s, answer)),
    ):
        assert torch.equal(function(state), function(loaded))


@every_rule
def test_every_option_names_its_file_and_its_unit(name):
    rule = RULES[name]
    assert rule.name == name.split("-")[0]
    assert rule.unit == ("user" if rule.name == "user_level" else "record")


@every_rule
@pytest.mark.parametrize("unit", ["record", "user"])
def test_every_rule_protects_either_unit(name, unit):
    rule = build(name, unit=unit)
    assert rule.unit == unit
    assert rule.bind(groups_of(rule), SIGMA, UNITS).keys() == first_state(RULES[name]).keys()


def test_the_denominator_is_the_expected_number_of_units():
    check_denominator(private_step)


def test_the_answer_is_noised_by_the_count_noise():
    check_answer_is_noised(private_step)
