"""What a run says of a sample of its units, one by one: gradients.parquet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from analysis import schema
from dpsgd.engine.probing import gradients_alone
from dpsgd.experiment.allowed import gate_of
from dpsgd.experiment.gradient_looks import write_gradients
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.training import recorder_of, trainer_of
from dpsgd.python import resolved, train
from dpsgd.telemetry import plane as planes
from dpsgd.telemetry.gradients import looks_at, most_units
from dpsgd.telemetry.plane import plane
from dpsgd.telemetry.sides import sample, sides_of
from dpsgd.training.sums import SAFETY

USERS = {"users": "dirichlet", "users.count": 40, "clip.unit": "user", "batch": 20,
         "sampling.max_records_per_user": 3, "slices": "users"}  # fmt: skip
KEYS = [("all", "all"), ("label", "a"), ("label", "b"), ("rarity", "head"), ("rarity", "tail")]


def settings(**changes):
    known = {"noise_multiplier": 1.0, "epsilon": 20.0, "accountant": "rdp"}
    return {"debug": "fast", "tracker": "none", **known, **changes}


def started(**changes):
    """A trainer that takes three steps, and its recorder."""
    plan = Plan(prepare(read_cell(resolved(settings(**changes)))), 1.0, 3, 3.0, {})
    trainer = trainer_of(plan)
    return plan, trainer, recorder_of(plan, trainer)


def looked(trainer, recorder):
    """The rows of one look at the model that training begins with."""
    state = trainer.rule.bind(trainer.groups, 1.0, 20.0)
    return pd.DataFrame(recorder.gradients.sampled.look(1, state)), state


def alone(sampled):
    """Every unit's gradient ``[units, parameters]`` by autograd in float64, row after row."""
    model = sampled.capture.model.double()
    found, _ = gradients_alone(model, sampled.capture.loss, sampled.inputs.double(),
                               sampled.targets, range(len(sampled.targets)))  # fmt: skip
    rows = torch.cat([torch.stack(g).flatten(1) for g in found.values()], dim=1)
    unit, count = sampled.draw.unit, sampled.draw.units
    total = torch.zeros(count, rows.shape[1], dtype=torch.float64).index_add(0, unit, rows)
    if sampled.capture.combine == "average":
        total /= torch.bincount(unit, minlength=count).clamp(min=1)[:, None]
    model.float()
    return total


CASES = {
    "flat": {},
    "by layer": {"clip": "per_layer", "model": "mlp"},
    "adaptive, micro-batches": {"clip": "adaptive", "engine.micro_batch": 16},
    "users averaged": USERS,
    "users added, by layer, micro-batches": USERS
    | {"clip": "per_layer", "sampling.combine": "sum", "engine.micro_batch": 5, "model": "mlp"},
}


@pytest.mark.parametrize("case", CASES)
def test_a_row_is_the_gradient_of_one_unit_as_the_rule_sees_it(case):
    _, trainer, recorder = started(**CASES[case])
    sampled = recorder.gradients.sampled
    table, state = looked(trainer, recorder)
    expected = alone(sampled)
    assert len(table) == len(expected) > 10
    groups = trainer.groups
    named = dict(trainer.model.named_parameters())
    sizes = [value.numel() for value in named.values()]
    parts = dict(zip(named, expected.split(sizes, dim=1), strict=True))
    norms = torch.stack(
        [torch.cat([parts[n] for n in own], 1).norm(dim=1) for own in groups.parameters], 1
    )
    before = table[[f"{schema.NORM_BEFORE}{name}" for name in groups.names]].to_numpy()
    after = table[[f"{schema.NORM_AFTER}{name}" for name in groups.names]].to_numpy()
    before = before.copy()
    assert before == pytest.approx(norms.numpy(), rel=1e-4, abs=1e-7)
    info = {key: value[sampled.draw.members] for key, value in trainer.info.items()}
    weights = trainer.rule.weights(torch.from_numpy(before), state, info) * SAFETY
    assert after == pytest.approx(before * weights.numpy(), rel=2e-6)
    assert (after < before).any()
    side = table["side"].to_numpy()
    head, tail = (expected[torch.from_numpy(side == word)].mean(0) for word in ("head", "tail"))
    first = head / head.norm()
    beside = tail - (tail @ first) * first
    axes = torch.stack([first, beside / beside.norm()])
    places = table[["projection_1", "projection_2"]].to_numpy()
    assert places == pytest.approx((expected @ axes.T).numpy(), rel=1e-3, abs=1e-4)


def test_the_head_lies_along_the_first_axis_and_the_tail_in_the_plane():
    _, trainer, recorder = started(model="mlp")
    table, _ = looked(trainer, recorder)
    head = table[table["side"] == "head"]
    tail = table[table["side"] == "tail"]
    assert abs(head["projection_2"].mean()) < 1e-4 * head["projection_1"].mean()
    assert head["projection_1"].mean() > 0
    assert tail["projection_2"].mean() > 0
    lengths = np.hypot(table["projection_1"], table["projection_2"])
    assert (lengths <= table["norm_before_all"] * (1 + 1e-4)).all()


class _Opaque(torch.autograd.Function):
    """Doubles; its backward pass leaves no trace."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, *grads):
        return 2 * grads[0].detach()


class _Within(nn.Module):
    def forward(self, x):
        return _Opaque.apply(x)


def test_what_cannot_be_differentiated_twice_is_done_row_by_row(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), _Within(), nn.Linear(5, 3))
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    loss = nn.CrossEntropyLoss(reduction="none")
    names = dict(model.named_parameters())
    units = planes.Units.of(torch.tensor([0, 0, 1, 2, 2, 2]), 3, "average")
    axes = plane({n: torch.randn_like(p) for n, p in names.items()},
                 {n: torch.randn_like(p) for n, p in names.items()})  # fmt: skip
    asked = []
    plain = planes._alone
    monkeypatch.setattr(planes, "_alone", lambda *a: asked.append(1) or plain(*a))
    found = planes.placed(model, loss, x, y, units, axes)
    assert asked
    for unit, rows in enumerate(([0, 1], [2], [3, 4, 5])):
        gradient = torch.autograd.grad(loss(model(x[rows]), y[rows]).mean(), list(names.values()))
        for axis in range(2):
            expected = sum((g * axes[n][axis]).sum() for n, g in zip(names, gradient, strict=True))
            assert float(found[unit, axis]) == pytest.approx(float(expected), rel=1e-4)


def test_a_tail_along_the_head_or_no_tail_has_no_axis():
    head = {"w": torch.tensor([1.0, 2.0])}
    assert plane(head, {"w": torch.tensor([2.0, 4.0])})["w"][1].isnan().all()
    assert plane(head, {"w": torch.full((2,), float("nan"))})["w"][1].isnan().all()
    assert plane(head, {"w": torch.tensor([1.0, 0.0])})["w"].norm(dim=1).tolist() == pytest.approx(
        [1, 1]
    )


@pytest.mark.parametrize("more", [{}, {"model": {"_target_": "dropping.Dropping", "name": "d"}}])
def test_training_is_the_same_bit_by_bit_with_and_without(tmp_path, more):
    base = settings(**{"debug.common_noise": True, "clip": "adaptive", "runs_dir": str(tmp_path)})
    base |= more
    with_looks = train(base)
    without = train(base | {"telemetry.gradient_looks": 0})
    plain = without.model().state_dict()
    for name, value in with_looks.model().state_dict().items():
        assert torch.equal(value, plain[name])
    assert with_looks.telemetry.equals(without.telemetry)
    assert (with_looks.folder / schema.GRADIENTS_FILE).exists()
    assert not (without.folder / schema.GRADIENTS_FILE).exists()
    assert with_looks.cell["epsilon"] == without.cell["epsilon"]
    lines = [line for line in with_looks.ledger["not_covered"] if "gradients.parquet" in line]
    assert len(lines) == 1
    assert not any("gradients.parquet" in line for line in without.ledger["not_covered"])


def test_the_random_state_of_the_process_is_left_alone():
    _, trainer, recorder = started()
    before = torch.get_rng_state()
    looked(trainer, recorder)
    assert torch.equal(before, torch.get_rng_state())


def test_the_file_has_the_columns_of_the_schema(tmp_path):
    run = train(settings(runs_dir=str(tmp_path), clip="per_layer", model="mlp"))
    table = pd.read_parquet(run.folder / schema.GRADIENTS_FILE)
    assert set(schema.GRADIENTS) < set(table)
    extra = [name for name in table if name not in schema.GRADIENTS]
    starts = (schema.SLICE_COLUMN, schema.NORM_BEFORE, schema.NORM_AFTER)
    assert all(name.startswith(starts) for name in extra)
    assert sorted(table["step"].unique()) == [1, 2, 3]
    assert set(table["release"]) == {"private"}
    assert (run.folder / schema.GRADIENTS_FILE).stat().st_size < 200_000
    predictions = pd.read_parquet(run.folder / schema.PREDICTIONS_FILE)
    slices = [name for name in table if name.startswith(schema.SLICE_COLUMN)]
    assert slices == [name for name in predictions if name.startswith(schema.SLICE_COLUMN)]


def test_a_release_writes_none_of_it(tmp_path):
    _, trainer, recorder = started()
    recorder.before(1, trainer.rule.bind(trainer.groups, 1.0, 20.0))
    assert recorder.gradients.rows
    write_gradients(tmp_path / "released", gate_of(release=True), recorder)
    assert not (tmp_path / "released").exists()
    write_gradients(tmp_path / "own", gate_of(release=False), recorder)
    assert (tmp_path / "own" / schema.GRADIENTS_FILE).exists()


def test_a_unit_whose_gradient_is_not_finite_is_left_out():
    _, trainer, recorder = started()
    sampled = recorder.gradients.sampled
    sampled.inputs[3] = float("inf")
    table, _ = looked(trainer, recorder)
    assert len(table) == sampled.draw.units - 1
    assert np.isfinite(table[["projection_1", "norm_before_all"]].to_numpy()).all()


def test_records_of_no_one_are_not_sampled():
    """A canary is in no slice, and who was left out by a coin is not there."""
    plan, trainer, _ = started()
    absent = torch.zeros(len(plan.prepared.bundle.train), dtype=torch.bool)
    absent[::2] = True
    recorder = recorder_of(plan, replace(trainer, present=absent))
    assert recorder.gradients is not None
    assert absent[recorder.gradients.sampled.draw.members].all()


def test_a_user_without_records_is_not_sampled():
    plan, _, recorder = started(**USERS | {"users.count": 400})
    records = np.bincount(plan.prepared.bundle.train.user, minlength=400)
    assert (records == 0).any()
    assert (records[recorder.gradients.sampled.draw.members] > 0).all()


def test_every_slice_is_there_and_half_of_the_units_are_rare():
    n = 10_000
    label = np.arange(n) % 50 == 0
    tail = np.arange(n) % 100 == 7
    member = np.column_stack([np.ones(n, bool), ~label, label, ~tail, tail])
    sides = sides_of(KEYS, member)
    chosen = sample(member, sides, 60)
    assert len(chosen) == 60
    assert sides.tail[chosen].sum() == 30
    assert (member[chosen].sum(0) >= 6).all()
    assert (np.diff(chosen) > 0).all()
    few = sample(member, replace(sides, tail=sides.tail & (np.arange(n) < 600)), 60)
    assert len(few) == 60


def test_without_bands_the_tail_is_what_there_is_little_of():
    n = 100
    place = np.arange(n)
    labels = np.column_stack([np.ones(n, bool), place < 45, (place >= 45) & (place < 90),
                              place >= 90])  # fmt: skip
    keys = [("all", "all"), ("label", "a"), ("label", "b"), ("label", "c")]
    assert sides_of(keys, labels).tail.sum() == 10
    others = [("all", "all"), ("column", "a"), ("column", "b"), ("column", "c")]
    assert sides_of(others, labels).tail.sum() == 10
    nothing = sides_of(keys[:1], labels[:, :1])
    assert not nothing.tail.any()
    assert nothing.head.all()
    assert len(sample(labels[:, :1], nothing, 20)) == 20


def test_looks_are_spread_and_files_stay_small():
    assert sorted(looks_at(290, 3)) == [1, 146, 290]
    assert looks_at(290, 1) == {290}
    assert sorted(looks_at(2, 5)) == [1, 2]
    assert most_units(120, 3, 1) == 120
    assert most_units(120, 3, 60) * 3 * 124 <= 31_000
