"""Book-keeping equals the oracle, and the oracle equals autograd on one row alone."""

import pytest
import torch
from torch import nn

from dpsgd.engine import Bookkeeping, Materialised, Units, clip_groups
from dpsgd.engine.bookkeeping import RecordedGradients
from dpsgd.engine.layers import squared_weight_norm
from dpsgd.errors import PrivacyError
from dpsgd.training.loss import cross_entropy

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.head = nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.shared(torch.tanh(self.shared(x.flatten(1))))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.second(torch.tanh(self.first(x.flatten(1)))))


class Sequence(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner, self.head = nn.Linear(4, width), nn.Linear(width, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(x[:, 0]))).mean(1)


def _conv(**options):
    conv = nn.Conv2d(1, 3, **{"kernel_size": 3} | options)
    size = conv(torch.zeros(1, 1, 4, 4)).numel()
    return nn.Sequential(conv, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(size, 5))


MODELS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 5)),
    "in-place": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(16, 8), nn.ReLU(inplace=True), nn.Linear(8, 5)
    ),
    "no bias": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 5, bias=False)),
    "sequence": Sequence,
    "wide sequence": lambda: Sequence(64),
    "twice": Twice,
    "conv": _conv,
    "stride": lambda: _conv(stride=2),
    "padding": lambda: _conv(padding=(1, 2)),
    "same, even kernel": lambda: _conv(kernel_size=2, padding="same"),
    "circular": lambda: _conv(padding=1, padding_mode="circular"),
    "reflect": lambda: _conv(padding=1, padding_mode="reflect"),
    "dilation": lambda: _conv(kernel_size=2, dilation=2),
    "no conv bias": lambda: _conv(bias=False),
}
GENERAL = {
    "tied": Tied,
    "layer norm": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.LayerNorm(4), nn.Flatten(), nn.Linear(16, 5)
    ),
    "grouped conv": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 2), nn.Conv2d(4, 4, 2, groups=2), nn.Flatten(), nn.Linear(16, 5)
    ),
}


def _one_by_one(model, inputs, targets, groups):
    norms, gradients = [], []
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(model(x[None]), y[None]).sum()
        names = [n for n, _ in model.named_parameters()]
        found = torch.autograd.grad(loss, list(model.parameters()))
        by_name = dict(zip(names, found, strict=True))
        gradients.append(by_name)
        norms.append(
            torch.stack(
                [torch.cat([by_name[n].flatten() for n in m]).norm() for m in groups.parameters]
            )
        )
    return torch.stack(norms), gradients


@pytest.mark.parametrize("granularity", ["all", "layer", "tensor"])
@pytest.mark.parametrize("units", [0, 1, 6])
@pytest.mark.parametrize("name", [*MODELS, *GENERAL])
def test_norms_and_sums_equal_autograd_on_one_unit_alone(name, units, granularity):
    torch.manual_seed(0)
    model = (MODELS | GENERAL)[name]().double()
    inputs = torch.randn(units, 1, 4, 4, dtype=torch.float64)
    targets = torch.randint(5, (units,))
    groups = clip_groups(model, granularity)
    fast = Bookkeeping("fast").capture(model, cross_entropy, inputs, targets, groups, None)
    slow = Materialised("slow").capture(model, cross_entropy, inputs, targets, groups, None)
    weights = torch.rand(units, len(groups), dtype=torch.float64)
    for engine in (fast, slow):
        norms, sums = engine.norms(), engine.weighted_sum(weights)
        assert norms.shape == (units, len(groups))
        expected = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
        if units:
            right, gradients = _one_by_one(model, inputs, targets, groups)
            assert torch.allclose(norms, right, rtol=1e-8, atol=1e-12)
            for u, by_name in enumerate(gradients):
                for n, value in by_name.items():
                    expected[n] += weights[u, groups.index_of(n)] * value
        assert sums.keys() == expected.keys()
        for n, value in expected.items():
            assert torch.allclose(sums[n], value, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_float32_agrees_with_the_oracle_to_1e_5(name):
    torch.manual_seed(1)
    model = MODELS[name]()
    inputs, targets = torch.randn(9, 1, 4, 4), torch.randint(5, (9,))
    groups = clip_groups(model, "layer")
    fast = Bookkeeping("fast").capture(model, cross_entropy, inputs, targets, groups, None)
    assert isinstance(fast, RecordedGradients)
    slow = Materialised("slow").capture(model, cross_entropy, inputs, targets, groups, None)
    assert torch.allclose(fast.norms(), slow.norms(), rtol=1e-5)
    ones = torch.ones_like(fast.norms())
    for n, value in slow.weighted_sum(ones).items():
        gap = (fast.weighted_sum(ones)[n] - value).norm() / value.norm().clamp_min(1e-12)
        assert gap < 1e-5


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_ghost_norms_never_come_out_too_small(offset):
    torch.manual_seed(2)
    a = torch.randn(20, 3, 300) + offset
    g = torch.randn(20, 3, 300)
    g = g - g.mean(1, keepdim=True)  # sums over positions cancel
    exact = torch.bmm(g.double().transpose(1, 2), a.double()).square().sum((1, 2))
    got = squared_weight_norm(a, g).double()
    assert (got.sqrt() >= exact.sqrt() * (1 - 1e-5)).all()


def test_a_changed_input_is_refused_by_name():
    class Skips(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 5)

        def forward(self, x):
            x = x.flatten(1) * 1
            y = self.first(x)
            x += 1
            return self.second(y + x)

    model = Skips()
    groups = clip_groups(model, "all")
    gradients = Bookkeeping("b").capture(
        model, cross_entropy, torch.randn(2, 16), torch.tensor([0, 1]), groups, None
    )
    with pytest.raises(PrivacyError, match=r"'first'.*in place"):
        gradients.norms()


def test_capture_leaves_the_model_as_it_was():
    model = MODELS["conv"]()
    groups = clip_groups(model, "all")
    Bookkeeping("b").capture(
        model, cross_entropy, torch.randn(2, 1, 4, 4), torch.tensor([0, 1]), groups, None
    )
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks for m in model.modules())


def test_frozen_parameters_have_no_part_in_the_norm():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Linear(8, 5))
    model[1].requires_grad_(False)
    groups = clip_groups(model, "all")
    x, y = torch.randn(3, 16), torch.randint(5, (3,))
    fast = Bookkeeping("b").capture(model, cross_entropy, x, y, groups, None)
    slow = Materialised("m").capture(model, cross_entropy, x, y, groups, None)
    assert set(fast.weighted_sum(torch.ones(3, 1))) == {"2.weight", "2.bias"}
    assert torch.allclose(fast.norms(), slow.norms(), rtol=1e-5)


UNIT_SIZES = [[2, 0, 3, 1], [1, 1, 1], [0, 0, 5], [1] * 9 + [12], [0, 0]]


@pytest.mark.parametrize("combine", ["average", "sum"])
@pytest.mark.parametrize("sizes", UNIT_SIZES, ids=str)
@pytest.mark.parametrize("name", [*MODELS, *GENERAL])
def test_a_users_gradient_is_that_of_its_rows_together(name, sizes, combine):
    torch.manual_seed(0)
    model = (MODELS | GENERAL)[name]().double()
    unit = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    inputs = torch.randn(len(unit), 1, 4, 4, dtype=torch.float64)
    targets = torch.randint(5, (len(unit),))
    groups = clip_groups(model, "layer")
    units = Units.of(unit, len(sizes), combine)
    weights = torch.rand(len(sizes), len(groups), dtype=torch.float64)
    _, rows = _one_by_one(model, inputs, targets, groups) if len(unit) else (None, [])
    for engine in (Bookkeeping("fast"), Materialised("slow")):
        found = engine.capture(model, cross_entropy, inputs, targets, groups, units)
        norms, sums = found.norms(), found.weighted_sum(weights)
        expected = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
        for u, size in enumerate(sizes):
            share = size if combine == "average" else 1
            own = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
            for row, of in zip(rows, unit.tolist(), strict=True):
                if of == u:
                    own = {n: own[n] + row[n] / share for n in own}
            for g, members in enumerate(groups.parameters):
                right = torch.cat([own[n].flatten() for n in members]).norm()
                assert torch.allclose(norms[u, g], right, rtol=1e-8, atol=1e-12)
                for n in members:
                    expected[n] += weights[u, g] * own[n]
        for n, value in expected.items():
            assert torch.allclose(sums[n], value, rtol=1e-8, atol=1e-12)
