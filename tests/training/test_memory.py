"""How many rows fit: from the model and the settings, in proportion to the limit."""

import pytest
import torch
from planted_training import ENGINES, engine, net, rows, run, trainer
from torch import nn

from dpsgd import ConfigError, PrivateTraining, part, train
from dpsgd.engine import Bookkeeping, clip_groups
from dpsgd.engine.memory import (
    HEADROOM,
    MEASURED,
    bytes_a_row,
    generous_bytes,
    living_bytes,
    rows_at_once,
)
from dpsgd.experiment.checked_model import probe
from dpsgd.experiment.own_loop import Budget
from dpsgd.models.shape import DataShape
from dpsgd.training.loss import cross_entropy


def _fits(chosen, model=None, n=8):
    model = model or net()
    inputs, targets = rows(n)
    groups = clip_groups(model, "all")
    return rows_at_once(chosen, model, cross_entropy, inputs, targets, groups)


@pytest.mark.parametrize("name", ENGINES)
def test_half_the_memory_holds_half_the_rows(name):
    whole, half, again = (_fits(engine(name, memory_gb=gb)) for gb in (1.0, 0.5, 1.0))
    assert whole == again
    assert abs(whole - 2 * half) <= 1
    assert _fits(engine(name, memory_gb=1e-9)) == 1


@pytest.mark.parametrize("name", ENGINES)
def test_a_row_needs_the_same_whatever_was_measured_with(name):
    model, groups = net(), clip_groups(net(), "all")
    found = {bytes_a_row(engine(name), model, cross_entropy, *rows(n), groups) for n in (4, 8, 40)}
    assert max(found) <= 1.05 * min(found)


def test_all_gradients_of_a_row_are_counted_where_an_engine_holds_them():
    model = nn.Linear(5, 3).double()
    groups = clip_groups(model, "all")
    found = bytes_a_row(engine("materialised"), model, cross_entropy, *rows(8), groups)
    assert found >= 8 * (15 + 3)


def test_more_features_need_more_memory():
    def needs(width):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 3)).double()
        groups = clip_groups(model, "all")
        return bytes_a_row(engine(), model, cross_entropy, *rows(8), groups)

    assert needs(400) > 1.7 * needs(200) > 1.7 * 200 * 8


def test_living_bytes_are_those_that_live():
    def work():
        first = torch.zeros(100)
        second = first.view(10, 10)  # no memory of its own
        third = second + 1
        del first, second
        return third.sum()

    assert living_bytes(work) == [400, 400, 800, 404]


def test_measuring_changes_nothing():
    model = net(dropout=0.5)
    state, before = torch.get_rng_state(), [p.clone() for p in model.parameters()]
    _fits(engine(), model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("choice", [None, 1, 7, "auto"])
def test_an_engine_sees_synthetic_rows_of_a_model_first(tmp_path, monkeypatch, choice):
    seen = []
    real = Bookkeeping.capture

    def capture(self, model, loss, inputs, targets, groups, units):
        first = not any(model is other for other, _ in seen)
        seen.append((model, len(inputs) if first else 0))
        return real(self, model, loss, inputs, targets, groups, units)

    monkeypatch.setattr(Bookkeeping, "capture", capture)
    settings = {"debug": "fast", "tracker": "none", "runs_dir": str(tmp_path), "steps": 1}
    train(settings | {"engine.micro_batch": choice})
    trained = seen[-1][0]
    assert next(rows for model, rows in seen if model is trained) == MEASURED


@pytest.mark.parametrize("choice", [None, 1, 7])
def test_a_number_is_taken_as_it_is(choice):
    assert _fits(engine(micro_batch=choice)) == choice


@pytest.mark.parametrize(
    "change", [{"micro_batch": 0}, {"micro_batch": -3}, {"memory_gb": 0.0}, {"memory_gb": -1.0}]
)
def test_sizes_without_sense_are_refused(tmp_path, change):
    key, value = next(iter(change.items()))
    settings = {"debug": "fast", "tracker": "none", "runs_dir": str(tmp_path)}
    with pytest.raises(ConfigError, match=rf"^engine\.{key}={value}"):
        train(settings | {f"engine.{key}": value})
    assert not list(tmp_path.glob("*/cell.json"))


def test_a_run_keeps_to_its_memory_and_says_so(tmp_path):
    settings = {"debug": "fast", "tracker": "none", "runs_dir": str(tmp_path), "steps": 2}
    sizes = {}
    for gb in (4.0, 1e-5):
        cell = train(settings | {"engine.memory_gb": gb}).cell
        sizes[gb] = cell["micro_batch"]
        assert cell["status"] == "FINISHED"
    assert sizes[4.0] > 1000
    assert 1 <= sizes[1e-5] < 64
    assert train(settings | {"engine.micro_batch": None}).cell["micro_batch"] is None


def test_a_loop_of_ones_own_keeps_to_its_memory():
    x, y = rows(60)
    seen = []

    class Watched(type(engine())):
        def capture(self, model, loss, inputs, targets, groups, units):
            seen.append(len(inputs))
            return super().capture(model, loss, inputs, targets, groups, units)

    fields = {f: getattr(engine(), f) for f in engine().__dataclass_fields__}
    chosen = Watched(**(fields | {"memory_gb": 3e-6}))
    most = _fits(chosen)
    budget = Budget(3.0, 1e-3, steps=2, batch=40)
    private = PrivateTraining(net(), part("clip/flat"), budget, 60, engine=chosen)
    for records in private:
        seen.clear()
        private.step(x[records], y[records])
        assert len(records) > most
    assert max(seen) == most < 40


def test_training_needs_no_more_than_its_micro_batch():
    sizes = []

    def seen(module, args):
        sizes.append(len(args[0]))

    trained = trainer(engine(), micro_batch=6)
    trained.model.register_forward_pre_hook(seen)
    run(trained)
    assert max(sizes) == 6


SHAPES = {
    "mlp": DataShape((1, 8, 8), 10, 0, "classes"), "cnn": DataShape((1, 28, 28), 10, 0, "classes"),
    "cnn_strided": DataShape((1, 28, 28), 10, 0, "classes"),
    "resnet_gn": DataShape((3, 16, 16), 10, 0, "classes"),
    "lstm": DataShape((12,), 20, 20, "tokens"), "transformer": DataShape((32,), 20, 20, "tokens"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("model", SHAPES)
def test_a_guess_is_above_what_is_measured(model, name):
    torch.manual_seed(0)
    shape = SHAPES[model]
    inputs, targets = probe(shape, MEASURED, torch.Generator().manual_seed(0))
    built = part(f"model/{model}").build(shape)
    groups = clip_groups(built, "all")
    needed = bytes_a_row(engine(name), built, cross_entropy, inputs, targets, groups)
    assert generous_bytes(built, inputs) >= HEADROOM * needed


def test_what_a_guess_holds_is_not_measured_and_what_it_does_not_is():
    model = net()
    inputs, targets = rows(8)
    arguments = (engine(memory_gb=1.0), model, cross_entropy, inputs, targets)
    groups = clip_groups(model, "all")
    guess = rows_at_once(*arguments, groups, 10.0)
    assert 10 <= guess < rows_at_once(*arguments, groups, 2.0 * guess)
