"""The noise of every clip group and every query column, seen from outside, is σ·scale.

Gradients are known and constant, and those of a slice cancel, so that what moves the parameters is
noise alone; what a rule asked shows in how its threshold moves.
"""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from planted_training import engine
from scipy import stats
from torch import nn

from dpsgd.clipping.adaptive_per_layer import AdaptivePerLayer
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.joint import Joint
from dpsgd.data.bundle import Split
from dpsgd.engine import clip_groups
from dpsgd.randomness import Streams
from dpsgd.sampling.poisson import Poisson
from dpsgd.telemetry.counts import PURPOSE, SliceCounts
from dpsgd.telemetry.recorder import NoRecorder
from dpsgd.training.loop import Trainer
from dpsgd.training.optim import SGD

SIGMA, STEPS, RATE, UNITS = 1.3, 1200, 1e-3, 8
LEVEL = 0.002
"""Of the two-sided χ² test of a variance: with 1200 draws it rejects 0.9 σ and 1.1 σ with a
probability above 0.95, with several columns together almost surely."""


class Two(nn.Module):
    """Two layers beside each other; a row's gradient is ±x for every output, whatever they hold."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3, bias=False), nn.Linear(4, 1, bias=False)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], dim=-1)


def signed(outputs, targets):
    return outputs.sum(-1) * (2.0 * targets - 1.0)


class Watching(NoRecorder):
    """Keeps the rule's states and what was asked beside it."""

    def __init__(self):
        super().__init__()
        self.states, self.answers = [], []

    def before(self, step, state):
        self.states.append({key: value.clone() for key, value in state.items()})

    def add(self, facts):
        self.answers.append(facts.answers[PURPOSE].double())


def known(users):
    """Eight units in pairs that cancel, half of them small; a user has one record or three."""
    x = torch.tensor([[0.3, 0.0, 0.0, 0.1], [9.0, -6.0, 2.0, 1.0]]).repeat_interleave(2, 0)
    x, labels = x.repeat(2, 1), torch.tensor([0, 1] * 4)
    owner = None
    if users:
        times = torch.tensor([1, 1, 3, 3, 3, 3, 1, 1])
        x, labels = x.repeat_interleave(times, 0), labels.repeat_interleave(times)
        owner = torch.arange(UNITS).repeat_interleave(times).numpy()
    return Split("train", x, labels, np.arange(len(x)), {}, owner)


class EndedError(Exception):
    """An attempt ended, and its process with it."""


class Restarts:
    """Ends an attempt after every ``every`` steps; the next goes on from what it kept."""

    def __init__(self, every):
        self.every, self.start = every, None

    def after(self, step, take):
        if step % self.every == 0:
            self.start = take()
            raise EndedError


def attempts(made, model, split, watching, progress, every):
    """Train in attempts of ``every`` steps, each with a model of its own; return the last state."""
    keeper = Restarts(every)
    while True:
        try:
            return made(model).run(split, watching, partial(progress, model), keeper=keeper)
        except EndedError:
            model = Two()


def trained(rule, share, *, micro_batch, users=False, every=STEPS, steps=STEPS):
    """Return step by step: parameters by group, states, counts; and the rule that released them.

    ``every``: it is ended after so many steps, and goes on from what was kept.
    """
    split, model = known(users), Two()
    groups = clip_groups(model, rule.granularity)
    joint = Joint(rule, (SliceCounts(2, len(groups), 2, of_groups=True),), (share,))
    poisson = Poisson("poisson", None, "average")
    sampler = (
        poisson.users(torch.from_numpy(split.user), UNITS, UNITS)
        if users
        else poisson.records(UNITS, UNITS)
    )
    made = partial(
        Trainer, loss=signed, engine=engine(micro_batch=micro_batch), rule=joint,
        groups=groups, micro_batch=micro_batch, sampler=sampler,
        combine="average" if users else None,
        info={PURPOSE: torch.tensor([[True, False], [True, True]]).repeat(4, 1)},
        optim=SGD("sgd", 1.0, 1.0, 0.0, "fixed"), mechanism="private", noise_multiplier=SIGMA,
        steps=steps, streams=Streams.from_seed(3, f"noise {users}"), device="cpu",
        stops_on_rows=True,
    )  # fmt: skip
    watching, at = Watching(), [_flat(model)]
    last = attempts(
        lambda model: made(model=model), model, split, watching,
        lambda model, *_: at.append(_flat(model)), every,
    )  # fmt: skip
    moved = torch.stack(at[:-1]) - torch.stack(at[1:])
    watching.states.append(last)
    of_group = torch.tensor(
        [groups.index_of(n) for n, p in model.named_parameters() for _ in p.flatten()]
    )
    return joint, moved.double(), of_group, watching


def _flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).double().clone()


def fits(noise):
    """Whether a χ² test at LEVEL takes ``noise`` for draws of a standard normal."""
    statistic, n = float(noise.square().sum()), noise.numel()
    low, high = stats.chi2.ppf([LEVEL / 2, 1 - LEVEL / 2], n)
    return low <= statistic <= high


def columns_of(joint, moved, of_group, watching):
    """Every clip group and query column, divided by what the rule and σ say of its noise."""
    states = watching.states[:-1]
    scale = torch.stack([joint.scale(state) for state in states])
    for group in range(scale.shape[1]):
        own = moved[:, of_group == group]
        yield f"group {group}", own * UNITS / (SIGMA * scale[:, group, None])
    (beside,) = joint.beside_scale()
    noised = torch.stack(watching.answers) * UNITS
    rule, state = joint.rule, states[0]
    norms = torch.tensor([[0.3162 * 3**0.5, 0.3162], [11.05 * 3**0.5, 11.05]])
    norms = norms if len(joint.scale(state)) == 2 else norms.norm(dim=1, keepdim=True)
    members = torch.tensor([[True, False], [True, True]])
    per_unit = joint.queries[0].ask(
        norms.repeat_interleave(2, 0), rule.weights(norms.repeat_interleave(2, 0), state, {}),
        {PURPOSE: members.repeat(2, 1)},
    )  # fmt: skip
    true = per_unit.double().sum(0) * 2
    for column in range(noised.shape[1]):
        yield f"count {column}", (noised[:, column] - true[column]) / (SIGMA * beside)
    if isinstance(rule, AdaptivePerLayer):
        threshold = torch.stack([state["threshold"] for state in watching.states])
        # C moves by exp(−η(b̃ − ½)), and half the units are below it: what is left is noise.
        answer = -(threshold[1:] / threshold[:-1]).log() / RATE
        std = SIGMA * rule.query_scale(state) * joint.growth
        for column in range(answer.shape[1]):
            yield f"bit {column}", answer[:, column] * UNITS / std


FLAT = Flat("flat", "record", 0.5)
PER_LAYER = AdaptivePerLayer(
    "adaptive_per_layer", "user", norm=2.0, quantile=0.5, rate=RATE, count_noise=1.0,
    noise="weighted", groups="layer",
)  # fmt: skip
CASES = {
    "records": (FLAT, 0.05, {"micro_batch": 5}),
    "users, resumed": (PER_LAYER, 0.1, {"users": True, "micro_batch": 9, "every": 97}),
}


@pytest.fixture(scope="module", params=CASES)
def seen(request):
    rule, share, more = CASES[request.param]
    return trained(rule, share, **more)


def test_every_group_and_column_has_the_noise_that_the_ledger_states(seen):
    found = dict(columns_of(*seen))
    groups = len(seen[0].scale(seen[3].states[0]))
    bits = groups if seen[0].rule is PER_LAYER else 0
    assert len(found) == groups + seen[0].queries[0].columns + bits
    for column, noise in found.items():
        assert fits(noise), column
    for kind in {column.split()[0] for column in found}:
        together = torch.cat([v.flatten() for k, v in found.items() if k.startswith(kind)])
        assert fits(together), kind
        assert not fits(0.9 * together), kind
        assert not fits(1.1 * together), kind


def test_no_two_columns_share_their_noise(seen):
    found = dict(columns_of(*seen)).values()
    first = torch.stack([noise if noise.dim() == 1 else noise[:, 0] for noise in found])
    apart = torch.corrcoef(first) - torch.eye(len(first))
    assert float(apart.abs().max()) < 4.5 / STEPS**0.5


def test_the_test_sees_shares_that_are_not_those_of_the_release(seen):
    joint, *rest = seen
    wrong = dataclasses.replace(joint, shares_beside=(0.75 * joint.share,))
    counts = [v for k, v in columns_of(wrong, *rest) if k.startswith("count")]
    assert not fits(torch.cat(counts))


def test_no_step_of_a_resumed_run_draws_its_noise_again_or_another_one():
    rule, share, more = CASES["users, resumed"]
    found = []
    for every in (7, STEPS):
        torch.manual_seed(0)
        _, moved, _, watching = trained(rule, share, **more | {"steps": 60, "every": every})
        found.append((moved, torch.stack(watching.answers)))
    assert all(torch.equal(resumed, whole) for resumed, whole in zip(*found, strict=True))
    assert len(found[0][0].unique(dim=0)) == 60
