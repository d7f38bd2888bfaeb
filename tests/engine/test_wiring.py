import copy
import gc
import types
import weakref

import pytest
import torch
from torch import nn

from dpsgd.engine import Units, clip_groups
from dpsgd.engine.wiring import wiring_of
from dpsgd.experiment.parts import default_part
from dpsgd.training.loss import cross_entropy


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Sequential(nn.Linear(4, 3)))


def freeze(model):
    model[0].bias.requires_grad_(False)


def replace_a_parameter(model):
    model[0].weight = nn.Parameter(torch.zeros(4, 5))


def replace_a_module(model):
    model[2] = nn.Linear(4, 3)


def add_a_module(model):
    model[2].append(nn.Linear(3, 3))


def add_a_parameter(model):
    model[1].register_parameter("shift", nn.Parameter(torch.zeros(3)))


def tie(model):
    model[2].append(nn.Linear(3, 3, bias=False))
    model[2].append(model[2][1])


def drop_a_bias(model):
    model[0].bias = None


CHANGES = [freeze, replace_a_parameter, replace_a_module, add_a_module, add_a_parameter, tie,
           drop_a_bias]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_remembered_is_what_a_fresh_look_sees(change):
    model = net()
    before = wiring_of(model)
    assert wiring_of(model) is before
    change(model)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    now = wiring_of(model)
    assert now.parameters.keys() == trained.keys()
    assert all(now.parameters[name] is parameter for name, parameter in trained.items())


def test_a_copy_has_parameters_of_its_own():
    model = net()
    wiring_of(model)
    other = copy.deepcopy(model)
    assert wiring_of(other).parameters["0.weight"] is other[0].weight


def sums(model, engine="bookkeeping"):
    groups = clip_groups(model, "all")
    inputs, targets = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)), torch.arange(6)
    captured = default_part("engine", engine).capture(
        model, cross_entropy, inputs, targets % 3, groups, None
    )
    return captured.norms(), captured.weighted_sum(torch.ones(6, 1))


@pytest.mark.parametrize("change", [freeze, replace_a_parameter, replace_a_module, drop_a_bias])
def test_a_model_changed_between_steps_has_the_gradients_of_what_it_is(change):
    model = net()
    sums(model)
    change(model)
    (norms, found), (right_norms, right) = sums(model), sums(model, "materialised")
    torch.testing.assert_close(norms, right_norms)
    torch.testing.assert_close(found, right)


def test_a_forward_of_its_own_given_later_is_neither_measured_by_formula_nor_lost():
    model = net()
    sums(model)
    twice = types.MethodType(lambda self, x: nn.Linear.forward(self, 2 * x), model[0])
    model[0].forward = twice
    (norms, _), (right, _) = sums(model), sums(model, "materialised")
    torch.testing.assert_close(norms, right)
    assert model[0].forward is twice


@pytest.mark.parametrize("build", [net, lambda: nn.Linear(5, 3)])
def test_a_model_that_nobody_holds_is_let_go(build):
    model = build()
    sums(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Marker:
    """Lives as long as the graph that holds it."""


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, marker):
        ctx.marker = marker
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Seen(nn.Module):
    """Remembers the graph of its last pass as long as somebody else holds it."""

    def __init__(self):
        super().__init__()
        self.last = lambda: None

    def forward(self, x):
        marker = Marker()
        self.last = weakref.ref(marker)
        return Marked.apply(x, marker)


@pytest.mark.parametrize("units", [None, Units.of(torch.arange(40) // 4, 10, "sum")])
@pytest.mark.parametrize("width", [8, 1700])
def test_no_graph_outlives_its_pass(width, units):
    model = nn.Sequential(nn.Linear(5, width), Seen(), nn.Linear(width, width), nn.Linear(width, 3))
    inputs, targets = torch.randn(40, 5), torch.arange(40) % 3
    engine = default_part("engine", "bookkeeping")
    gc.disable()  # a cycle through the graph would wait for it, and keep every activation
    try:
        for _ in range(2):
            found = engine.capture(
                model, cross_entropy, inputs, targets, clip_groups(model, "all"), units
            )
            found.norms()
        del found
        assert model[1].last() is None
    finally:
        gc.enable()
