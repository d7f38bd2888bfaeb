"""The contract of a clipping rule as checks, and every rule that conf/clip can build."""

from pathlib import Path

import torch
import yaml
from hypothesis import strategies as st

from dpsgd.clipping import Groups, envelope
from dpsgd.experiment.parts import build_part

CONF = Path(__file__).resolve().parents[2] / "conf" / "clip"
SIGMA, UNITS, SLICES = 1.0, 64.0, 3
NODES = {path.stem: yaml.safe_load(path.read_text()) for path in CONF.glob("*.yaml")}

_allocations = [
    {"noise": "global", "groups": "tensor"},
    {"noise": "equal_budget"},
    {"noise": "weighted"},
]
VARIANTS = {
    "per_layer": [
        {"thresholds": t, "norm": 0.7, **a}
        for t in ("uniform", "by_dimension")
        for a in _allocations
    ]
    + [{"norm": None, "norms": {"a": 0.1, "b": 2.0, "c": 1.0}, "noise": "weighted"}],
    "adaptive_per_layer": [*_allocations, {"rate": 0.0}],
    "adaptive": [{"rate": 0.0}, {"quantile": 0.9, "count_noise": 0.51}],
    "bounded_adaptive": [{"floor": 3.0}],
    "automatic": [{"variant": "AUTO-V"}, {"gamma": 0.0}],
    "nsgd": [{"r": 0.0}],
    "psac": [{"r": 0.0}, {"r": 1e-30}, {"r": 100.0}],
    "global": [{"bound": 1e20}],
    "global_adapt": [{"bound": 0.1}, {"tau": 2.0, "rate": 0.0, "count_noise": None}],
    "group_thresholds": [{"count_noise": 1.01}],
}
for _stem, _changes in VARIANTS.items():
    NODES |= {f"{_stem}-{i}": NODES[_stem] | change for i, change in enumerate(_changes)}


def build(name, **change):
    return build_part(NODES[name] | change, "clip")


RULES = {name: build(name) for name in NODES}

norm_values = st.one_of(st.just(0.0), st.floats(1e-35, 1e35), st.floats(0.01, 100.0))
batches = st.lists(st.lists(norm_values, min_size=3, max_size=3), min_size=1, max_size=5)
memberships = st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=5, max_size=5)
answer_values = st.one_of(st.floats(-1.0, 1.0), st.floats(-1e6, 1e6))
histories = st.lists(st.lists(answer_values, min_size=6, max_size=6), max_size=4)


def groups_of(rule):
    if rule.granularity == "all":
        return Groups(("all",), (("a", "b", "c"),), (111,))
    return Groups(("a", "b", "c"), (("a",), ("b",), ("c",)), (100, 10, 1))


def one_group(size=7):
    return Groups(("all",), (("w",),), (size,))


def batch(rule, rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype)[..., : len(groups_of(rule))]


def info_of(rule, members):
    """Memberships ``[..., 3]`` under the name that the rule reads."""
    return {rule.partition or "label": torch.as_tensor(members)}


def one_slice(rule, rows, k=0):
    members = torch.zeros((rows, SLICES))
    members[:, k] = 1.0
    return info_of(rule, members)


def columns(rule, state):
    zero = torch.zeros(1, len(groups_of(rule)), dtype=torch.float64)
    return rule.query(zero, state, one_slice(rule, 1)).shape[-1]


def first_state(rule, sigma=SIGMA):
    return rule.bind(groups_of(rule), sigma, UNITS)


def state_after(rule, history, sigma=SIGMA):
    """The state after these answers, each of which is as long as the queries at most."""
    state = first_state(rule, sigma)
    for answer in history:
        used = torch.tensor(answer, dtype=torch.float64)[: columns(rule, state)]
        state = rule.update(state, used)
    return state


def check_envelope(rule, norms, state, info):
    assert (envelope(rule, norms, state, info) <= 1 + 1e-9).all()


def check_rows(rule, norms, state, info):
    for answer in (rule.weights, rule.query):
        together = answer(norms, state, info)
        alone = torch.stack(
            [
                answer(row, state, {key: value[i] for key, value in info.items()})
                for i, row in enumerate(norms)
            ]
        )
        assert torch.equal(together, alone)


def check_envelope_everywhere(rule, state):
    """At equal norms, 0 and the threshold among them, in each slice, in several and in none."""
    edge = state["threshold"].max() if "threshold" in state else torch.tensor(1.0).double()
    steps = torch.cat([torch.logspace(-9, 9, 400, dtype=torch.float64), edge[None], 0 * edge[None]])
    norms = steps[:, None].expand(-1, len(groups_of(rule)))
    for members in (*torch.eye(SLICES), torch.ones(SLICES), torch.zeros(SLICES)):
        check_envelope(rule, norms, state, info_of(rule, members.expand(len(norms), -1)))


def check_scale_is_of_the_state_alone(rule, state):
    seen = []
    for k in range(SLICES):
        norms = torch.full((2, len(groups_of(rule))), 10.0**k, dtype=torch.float64)
        info = one_slice(rule, 2, k)
        rule.weights(norms, state, info)
        rule.query(norms, state, info)
        seen.append((rule.scale(state), rule.query_scale(state), rule.threshold(state)))
    for scale, query_scale, threshold in seen:
        assert torch.equal(scale, seen[0][0])
        assert torch.equal(query_scale, seen[0][1])
        assert threshold == seen[0][2]


def check_state_moves_by_the_answer_alone(rule, state):
    """Reading leaves the state as it is, and what was read does not show in the next one."""
    before = {key: value.clone() for key, value in state.items()}
    answer = torch.linspace(-0.4, 0.6, columns(rule, state), dtype=torch.float64)
    following = []
    for norm in (0.0, 1e-3, 1e3):
        norms = torch.full((4, len(groups_of(rule))), norm, dtype=torch.float64)
        info = one_slice(rule, 4)
        rule.weights(norms, state, info)
        rule.query(norms, state, info)
        following.append(rule.update(state, answer))
    assert state.keys() == before.keys()
    assert all(torch.equal(state[key], value) for key, value in before.items())
    for later in following:
        assert all(torch.equal(later[key], value) for key, value in following[0].items())


def settle(rule, norms, steps=400):
    """The state that the rule reaches without noise when every step draws these norms."""
    groups = groups_of(rule)
    state = rule.bind(groups, 0.0, float(len(norms)))
    for _ in range(steps):
        state = rule.update(state, rule.query(norms, state, {}).mean(0))
    return state


def check_finds_the_quantile(rule):
    generator = torch.Generator().manual_seed(1)
    norms = torch.randn(2000, 3, generator=generator, dtype=torch.float64).exp()
    norms = (norms * torch.tensor([1.0, 20.0, 0.02]))[:, : len(groups_of(rule))]
    below = (norms <= settle(rule, norms)["threshold"]).double().mean(0)
    assert torch.allclose(below, torch.full_like(below, rule.quantile), atol=0.02)


class Constant:
    """Units whose gradient of one parameter is known."""

    def __init__(self, values):
        self.values = values
        self.losses = values[:, 0]

    def norms(self):
        return self.values.norm(dim=1, keepdim=True)

    def weighted_sum(self, weights):
        return {"w": (weights * self.values).sum(0)}


def take_step(step, rule, values, sigma, expected_units, seed=0):
    groups = one_group(2)
    return step(
        [Constant(values)], rule, rule.bind(groups, sigma, expected_units), groups, {},
        clipping=True, noise_multiplier=sigma, expected_units=expected_units,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def check_denominator(step):
    for units in (0, 1, 3, 40):
        values = torch.tensor([[0.3, 0.4]]).repeat(units, 1)
        result = take_step(step, RULES["flat"], values, 0.0, 10.0)
        assert torch.allclose(result.mean["w"], torch.tensor([0.3, 0.4]) * units / 10, atol=1e-4)


def check_answer_is_noised(step):
    """Over many steps the answer scatters around the raw mean by σ_b over the expected units."""
    rule = build("adaptive", count_noise=5.0)
    values = torch.tensor([[0.3, 0.4], [0.0, 0.01]])
    answers = torch.stack(
        [take_step(step, rule, values, 1.0, 10.0, seed).answer for seed in range(300)]
    )
    assert abs(float(answers.mean())) < 0.12
    assert 0.4 < float(answers.std()) < 0.6
