"""Models that mix rows, remember them, or draw their own luck are refused, each by its name."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from engines import fast
from torch import nn
from torch.nn import functional

from dpsgd.engine import clip_groups
from dpsgd.engine.checks import check_engine, check_row_alone, check_rows_apart
from dpsgd.engine.fixed import FixedState
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.training.loss import cross_entropy

N = 32
SEEDED = torch.Generator().manual_seed(0)
X = torch.rand(N, 3, 4, 4, generator=SEEDED)
Y = torch.randint(5, (N,), generator=SEEDED)


class Does(nn.Module):
    """Applies a function to the rows in between."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.seen = []

    def forward(self, x):
        return self.function(self, x)


def _running_mean(module, x):
    module.seen.append(x.detach().abs().mean())
    return x + torch.stack(module.seen[-20:]).mean()


def _if_many(module, x):
    return x - x.mean(0, keepdim=True) if len(x) > 4 else x


def _capacity(module, x):
    keep = (torch.arange(len(x)) < 8).to(x.dtype)
    return x * keep.view(-1, 1, 1, 1)


def _python_coin(module, x):
    return x.roll(1, 0) if random.random() < 0.3 else x  # noqa: S311


def _numpy_coin(module, x):
    return x + float(np.random.rand())


MIXING = {
    "mean": lambda m, x: x - x.mean(0, keepdim=True),
    "first row": lambda m, x: x - 3 * x[:1],
    "running sum": lambda m, x: x.cumsum(0),
    "only in large batches": _if_many,
    "roll": lambda m, x: x.roll(1, 0),
    "attention over the batch": lambda m, x: (
        torch.softmax(x.flatten(1) @ x.flatten(1).T, 1) @ x.flatten(1)
    ).view_as(x),
    "batch norm by hand": lambda m, x: functional.batch_norm(x, None, None, training=True),
    "capacity": _capacity,
    "running mean": _running_mean,
    "python's coin": _python_coin,
    "numpy's coin": _numpy_coin,
    "torch's coin": lambda m, x: x + torch.rand(()),
    "functional dropout": lambda m, x: functional.dropout(x, 0.5, m.training),
}


def _with(layer):
    return nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.Flatten(), nn.Linear(64, 5))


@pytest.mark.parametrize("name", MIXING)
def test_whatever_mixes_rows_or_draws_its_own_luck_is_refused(name):
    with pytest.raises(ConfigError, match="model="):
        check_rows_apart(_with(Does(MIXING[name])), cross_entropy, X, Y)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.BatchNorm2d(4), r"model=1 \(BatchNorm2d\).*GroupNorm"),
        (Does(MIXING["mean"]), r"model=1 \(Does\).*GroupNorm"),
        (Does(MIXING["running sum"]), r"model=1 \(Does\)"),
        (nn.InstanceNorm2d(4, track_running_stats=True), r"model=1 \(InstanceNorm2d\).*changes"),
    ],
)
def test_the_module_is_named(layer, name):
    with pytest.raises(ConfigError, match=name):
        check_rows_apart(_with(layer), cross_entropy, X, Y)


@pytest.mark.parametrize(
    "layer", [nn.GroupNorm(2, 4), nn.Dropout(0.5), nn.Tanh(), nn.InstanceNorm2d(4)]
)
def test_modules_that_keep_rows_apart_pass(layer):
    model = _with(layer)
    check_rows_apart(model, cross_entropy, X, Y)
    groups = clip_groups(model, "all")
    check_engine(fast(), model, cross_entropy, X, Y, groups)


class Keeps(nn.Module):
    """Writes the batch into what is not trained."""

    def __init__(self, kind):
        super().__init__()
        self.linear = nn.Linear(48, 5)
        if kind == "frozen parameter":
            self.kept = nn.Parameter(torch.zeros(48), requires_grad=False)
        else:
            self.register_buffer("kept", torch.zeros(48), persistent=kind == "buffer")

    def forward(self, x):
        self.kept.data.copy_(x.detach().flatten(1).mean(0))
        return self.linear(x.flatten(1))


@pytest.mark.parametrize("kind", ["frozen parameter", "buffer", "buffer outside the state"])
def test_a_model_that_keeps_rows_is_refused_before_and_found_after_training(kind):
    model = Keeps(kind)
    with pytest.raises(ConfigError, match="'kept'"):
        check_rows_apart(model, cross_entropy, X, Y)
    fixed = FixedState.of(model)
    model(X)
    with pytest.raises(PrivacyError, match="'kept'"):
        fixed.check(model)


def test_state_that_is_no_tensor_is_refused():
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"rows": [1]}

    with pytest.raises(ConfigError, match="_extra_state"):
        check_rows_apart(nn.Sequential(nn.Flatten(), Extra(48, 5)), cross_entropy, X, Y)


def test_trained_parameters_may_change():
    model = nn.Linear(48, 5)
    fixed = FixedState.of(model)
    with torch.no_grad():
        model.weight += 1
    fixed.check(model)


@pytest.mark.parametrize("options", [{"scale_grad_by_freq": True}, {"max_norm": 1.0}])
def test_embeddings_that_look_at_other_rows_or_change_weights_are_refused(options):
    model = nn.Sequential(nn.Embedding(7, 4, **options), nn.Flatten(), nn.Linear(12, 5))
    with pytest.raises(ConfigError, match=next(iter(options))):
        check_rows_apart(model, cross_entropy, torch.randint(7, (N, 3)), Y)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_parameters_are_refused(dtype):
    with pytest.raises(ConfigError, match="float32 or float64"):
        check_rows_apart(_with(nn.Tanh()).to(dtype), cross_entropy, X.to(dtype), Y)


def test_a_loss_over_the_batch_is_refused():
    with pytest.raises(ConfigError, match="one value a row"):
        check_rows_apart(_with(nn.Tanh()), functional.cross_entropy, X, Y)


class Forgetful:
    """An engine whose norms are a little too small."""

    name, autocast = "forgetful", None

    def __init__(self, share):
        self.share = share

    def capture(self, *batch):
        found = fast().capture(*batch)
        norms = found.norms() * self.share
        return SimpleNamespace(norms=lambda: norms, losses=found.losses)


@pytest.mark.parametrize("share", [0.99, float("nan")])
def test_an_engine_that_is_wrong_for_a_model_is_found(share):
    model = _with(nn.Tanh())
    groups = clip_groups(model, "layer")
    check_engine(Forgetful(1.0), model, cross_entropy, X, Y, groups)
    with pytest.raises(PrivacyError, match="engine=forgetful"):
        check_engine(Forgetful(share), model, cross_entropy, X, Y, groups)


def test_a_row_is_looked_at_alone_while_training():
    mixing = _with(Does(MIXING["mean"]))
    losses = cross_entropy(mixing(X), Y).detach()
    with pytest.raises(PrivacyError, match="alone"):
        check_row_alone(mixing, cross_entropy, X, Y, losses, 3)
    apart = _with(nn.Tanh())
    check_row_alone(apart, cross_entropy, X, Y, cross_entropy(apart(X), Y).detach(), 3)


def test_the_checks_leave_no_trace():
    model = _with(nn.Dropout(0.5)).eval()
    before, state = torch.get_rng_state(), {n: v.clone() for n, v in model.state_dict().items()}
    check_rows_apart(model, cross_entropy, X, Y)
    assert torch.equal(before, torch.get_rng_state())
    assert not model.training
    assert all(torch.equal(v, state[n]) for n, v in model.state_dict().items())
