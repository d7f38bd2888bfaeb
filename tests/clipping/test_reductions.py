"""A rule at its limit is the older rule, and does what its paper says."""

import pytest
import torch
from rule_contract import (
    SIGMA,
    UNITS,
    build,
    check_finds_the_quantile,
    columns,
    first_state,
    groups_of,
    info_of,
    one_group,
    one_slice,
    settle,
    state_after,
)

from dpsgd.clipping import Groups, envelope

NORMS = torch.tensor([[0.0], [1e-3], [0.7], [1.5], [9.0], [1e6]], dtype=torch.float64)
NEVER = [[0.4] * 6, [-0.9] * 6, [17.0] * 6]
ASKING = ["adaptive", "bounded_adaptive", "adaptive_per_layer", "global_adapt", "group_thresholds"]


def _weights(rule, norms=NORMS, history=(), k=0):
    return rule.weights(norms, state_after(rule, history), one_slice(rule, len(norms), k))


def _share(rule):
    return float(first_state(rule)["share"])


@pytest.mark.parametrize("noise", ["global", "equal_budget", "weighted"])
def test_one_layer_is_flat_clipping(noise):
    flat, layered = build("flat", norm=1.5), build("per_layer", norm=1.5, noise=noise)
    a, b = (rule.bind(one_group(), SIGMA, UNITS) for rule in (flat, layered))
    assert torch.allclose(flat.weights(NORMS, a, {}), layered.weights(NORMS, b, {}))
    assert torch.allclose(flat.scale(a), layered.scale(b))


@pytest.mark.parametrize("noise", ["global", "equal_budget", "weighted"])
def test_one_adaptive_layer_is_adaptive_clipping(noise):
    one, layered = build("adaptive"), build("adaptive_per_layer", noise=noise)
    a, b = (rule.bind(one_group(), SIGMA, UNITS) for rule in (one, layered))
    for answer in (0.3, -0.2, 4.0):
        assert torch.allclose(one.weights(NORMS, a, {}), layered.weights(NORMS, b, {}))
        assert torch.allclose(one.query(NORMS, a, {}), layered.query(NORMS, b, {}))
        assert torch.allclose(one.scale(a), layered.scale(b))
        assert torch.allclose(one.query_scale(a), layered.query_scale(b))
        a, b = (rule.update(s, torch.tensor([answer])) for rule, s in ((one, a), (layered, b)))


def test_a_rate_of_zero_is_flat_clipping_but_for_the_share():
    still, flat = build("adaptive", rate=0.0, norm=1.5), build("flat", norm=1.5)
    state = state_after(still, NEVER)
    assert torch.equal(_weights(still, history=NEVER), _weights(flat))
    expected = flat.scale(first_state(flat)) / (1 - _share(still)) ** 0.5
    assert torch.allclose(still.scale(state), expected)


def test_an_adaptive_layer_that_stays_is_per_layer_clipping_but_for_the_share():
    still = build("adaptive_per_layer", rate=0.0, norm=1.5, noise="weighted")
    layered = build("per_layer", norm=1.5, noise="weighted")
    norms = NORMS.expand(-1, 3)
    assert torch.allclose(_weights(still, norms, NEVER), _weights(layered, norms))
    expected = layered.scale(first_state(layered)) / (1 - _share(still)) ** 0.5
    assert torch.allclose(still.scale(state_after(still, NEVER)), expected)


def test_a_floor_out_of_reach_is_adaptive_clipping_and_a_high_one_is_flat():
    free, low = build("adaptive"), build("bounded_adaptive", floor=1e-25)
    high, flat = build("bounded_adaptive", floor=40.0), build("flat", norm=40.0)
    assert torch.equal(_weights(free, history=NEVER), _weights(low, history=NEVER))
    assert torch.equal(_weights(high, history=NEVER), _weights(flat))


def test_user_level_is_flat_clipping_of_a_user():
    assert torch.equal(_weights(build("user_level", norm=1.5)), _weights(build("flat", norm=1.5)))


def test_normalisers_meet_at_their_limits():
    auto_v = _weights(build("automatic", variant="AUTO-V"))
    assert torch.allclose(_weights(build("automatic", gamma=1e-16)), auto_v)
    assert torch.equal(_weights(build("automatic", gamma=0.0)), auto_v)
    assert torch.equal(_weights(build("nsgd", r=0.0)), auto_v)
    assert torch.equal(_weights(build("psac", r=0.0)), auto_v)
    assert torch.equal(_weights(build("nsgd", r=0.05)), _weights(build("automatic", gamma=0.05)))
    assert torch.allclose(_weights(build("flat", norm=1e-9))[1:], 1e-9 * auto_v[1:])


def test_psac_gives_the_smallest_gradients_weight_c():
    weights = _weights(build("psac", norm=0.3, r=0.1))
    assert float(weights[0]) == pytest.approx(0.3)
    # At n = 0.7: n + r/(n+r) = 0.825.
    assert float(weights[2]) == pytest.approx(0.3 / 0.825)


def test_a_huge_bound_scales_every_gradient_alike():
    weights = _weights(build("global", norm=2.0, bound=1e9))
    assert torch.allclose(weights, torch.full_like(weights, 2e-9))


def test_global_drops_and_global_adapt_clips_what_is_above_the_bound():
    drops, clips = build("global", bound=2.0), build("global_adapt", bound=2.0)
    flat = _weights(build("flat"))
    assert torch.equal(_weights(drops), torch.where(NORMS > 2, 0.0 * flat, 0.5))
    assert torch.equal(_weights(clips), torch.where(NORMS > 2, flat, 0.5))


def test_group_thresholds_start_flat():
    rule = build("group_thresholds", norm=1.5)
    assert torch.equal(_weights(rule), _weights(build("flat", norm=1.5)))


def test_groups_alike_are_flat_clipping_at_twice_c():
    rule = build("group_thresholds", norm=1.5)
    flat = _weights(build("flat", norm=3.0))
    for counts in ([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], [0.0] * 6, [-1.0] * 6, [0, 0, 0, 1, 1, 1]):
        for k in range(3):
            assert torch.equal(_weights(rule, history=[counts], k=k), flat)


def test_group_thresholds_are_those_of_the_formula():
    # r = (1, 1/2, 0): the mean is 1/2, so that C_k = C·(1+2, 1+1, 1+0); −3 counts as 0.
    rule = build("group_thresholds", norm=0.5)
    state = state_after(rule, [[0.2, 0.1, -3.0, 0.0, 0.1, 0.4]])
    assert state["threshold"].tolist() == pytest.approx([1.5, 1.0, 0.5])
    assert rule.threshold(state) == pytest.approx(1.5)
    assert rule.scale(state).tolist() == pytest.approx([1.5 / (1 - _share(rule)) ** 0.5])
    norms = torch.full((5, 1), 2.0, dtype=torch.float64)
    members = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 0, 0]])
    weights = rule.weights(norms, state, info_of(rule, members)).flatten()
    assert weights.tolist() == pytest.approx([0.75, 0.5, 0.25, 0.5, 0.25])


def test_group_counts_say_which_group_and_which_side():
    rule = build("group_thresholds", norm=1.0)
    members = torch.tensor([[False, True, False], [True, False, False]])
    asked = rule.query(torch.tensor([[1.0], [1.1]]), first_state(rule), info_of(rule, members))
    assert asked.tolist() == [[0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("name", ["adaptive", "adaptive_per_layer"])
def test_noise_moves_a_threshold_no_further_than_all_units_could(name):
    # b̃ is clamped to [0, 1], so that C moves by e^(ηγ) up or e^(−η(1−γ)) down at most.
    rule = build(name, quantile=0.3, rate=0.2)
    start = first_state(rule)["threshold"]
    for answer, most in (([-9.0] * 6, 0.06), ([-0.5] * 6, 0.06), ([9.0] * 6, -0.14)):
        moved = state_after(rule, [answer])["threshold"] / start
        assert moved.log().tolist() == pytest.approx([most] * len(start))


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [1e-3, 0.1, 30.0])
@pytest.mark.parametrize("name", ["adaptive", "adaptive_per_layer"])
def test_thresholds_find_the_quantile_of_the_norms(name, start, quantile):
    check_finds_the_quantile(build(name, norm=start, quantile=quantile))


def test_the_bound_settles_where_a_part_eta_is_above_tau_z():
    rule = build("global_adapt")
    norms = torch.linspace(0.0, 10.0, 2001, dtype=torch.float64)[:, None]
    bound = float(settle(rule, norms)["bound"])
    assert float((norms > rule.tau * bound).double().mean()) == pytest.approx(rule.rate, abs=0.02)


@pytest.mark.parametrize(("sigma", "sigma_b"), [(1.0, 3.2), (0.6, 0.31), (4.0, 12.8)])
def test_the_gradient_gets_the_published_multiplier(sigma, sigma_b):
    # Andrew et al. 2021, Theorem 1: z_Δ = (z⁻² − (2σ_b)⁻²)^(−½).
    rule = build("adaptive", count_noise=sigma_b)
    state = rule.bind(groups_of(rule), sigma, UNITS)
    multiplier = sigma * float(rule.scale(state)) / rule.threshold(state)
    assert multiplier == pytest.approx((sigma**-2 - (2 * sigma_b) ** -2) ** -0.5)


def test_a_share_of_a_twentieth_costs_what_it_should():
    rule = build("adaptive", count_noise=0.5 / 0.05**0.5)
    assert _share(rule) == pytest.approx(0.05)
    assert float(rule.scale(first_state(rule))) == pytest.approx(0.1 / 0.95**0.5)


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("count_noise", [None, 7.0])
def test_every_count_gets_the_configured_noise(name, count_noise):
    rule = build(name, count_noise=count_noise)
    noise = SIGMA * rule.query_scale(first_state(rule))
    assert noise.tolist() == pytest.approx([0.05 * UNITS if count_noise is None else count_noise])


@pytest.mark.parametrize("name", ASKING)
def test_a_rule_leaves_room_for_what_stands_beside_it(name):
    # Another query takes s: the rule is bound with σ/√(1−s), and its scales grow by 1/√(1−s).
    rule, taken = build(name, count_noise=7.0), 0.3
    state = first_state(rule, SIGMA / (1 - taken) ** 0.5)
    grown = 1 / (1 - taken) ** 0.5
    norms = torch.logspace(-3, 6, 2000, dtype=torch.float64)[:, None]
    norms = norms.expand(-1, len(groups_of(rule)))
    info = one_slice(rule, len(norms))
    gradient = (rule.weights(norms, state, info) * norms / (grown * rule.scale(state))).square()
    filled = gradient.sum(1)
    filled += (rule.query(norms, state, info) / (grown * rule.query_scale(state))).square().sum(1)
    assert float(filled.max()) == pytest.approx(1 - taken, abs=0.01)
    assert float(filled.max()) <= 1 - taken + 1e-12
    assert (SIGMA * grown * rule.query_scale(state)).tolist() == pytest.approx([7.0])


def test_a_bound_below_the_floor_of_norms_stays_inside():
    rule = build("global", bound=1e-20)
    lost = torch.tensor([[3e-15]], dtype=torch.float64)
    weight = rule.weights(torch.zeros(1, 1), first_state(rule), {}).double()
    assert float(weight * lost) < 0.01
    assert float(envelope(rule, torch.tensor([[1.0]]), first_state(rule), {})) == 0


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
    rule = build("per_layer", norm=2**0.5, noise=noise)
    adaptive = build("adaptive_per_layer", norm=2**0.5, noise=noise)
    assert rule.scale(rule.bind(groups, 1.0, 1.0)).tolist() == pytest.approx(expected)
    assert adaptive.scale(adaptive.bind(groups, 0.0, 1.0)).tolist() == pytest.approx(expected)


def test_rules_without_queries_stay_as_they_are():
    rule = build("flat")
    state = first_state(rule)
    assert columns(rule, state) == 0
    assert rule.update(state, torch.zeros(0, dtype=torch.float64)) is state


def test_a_group_that_nobody_answered_for_counts_as_clipped():
    # r = (1 at 0/0, 0, 1/2): the mean is 1/2.
    rule = build("group_thresholds", norm=1.0)
    state = state_after(rule, [[0.0, 0.0, 0.2, 0.0, 0.3, 0.2]])
    assert state["threshold"].tolist() == pytest.approx([3.0, 1.0, 2.0])


def test_the_edge_itself_is_inside():
    norms = torch.tensor([[2.0]], dtype=torch.float64)
    adaptive = build("adaptive", norm=2.0)
    assert float(adaptive.query(norms, first_state(adaptive), {})) == 0.5
    assert float(_weights(build("global", bound=2.0), norms)) == 0.5
    # With C > Z the two sides differ: C/Z = 2 below, min(1, C/n) = 1 above.
    adapt = build("global_adapt", norm=4.0, bound=2.0, tau=1.0)
    assert float(_weights(adapt, norms)) == 2.0
    assert float(adapt.query(norms, first_state(adapt), {})) == -0.5
