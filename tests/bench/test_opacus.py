"""A second opinion: where Opacus has a formula for a layer, its gradients are this engine's."""

import copy

import pytest
import torch
from opacus import GradSampleModule
from torch import nn

from dpsgd import part
from dpsgd.engine import clip_groups
from dpsgd.models.shape import DataShape
from dpsgd.models.text import Transformer

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel"),
]

ROWS = 5


def _floats(*shape):
    return lambda: torch.randn(ROWS, *shape, dtype=torch.float64)


def _ids(words, *shape):
    return lambda: torch.randint(words, (ROWS, *shape))


def _bend(layer, *after):
    """Return the layer between others, so that its inputs and gradients are nothing special."""
    return nn.Sequential(layer, nn.Tanh(), *after)


def _conv_gn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, padding=1), nn.GroupNorm(3, 6), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip


def _transformer():
    source = Transformer("transformer", width=8, layers=2, heads=2, hidden=12, dropout=0.0)
    return source.build(DataShape((5,), 7, 7, "tokens"))


def _normed(norm, *shape):
    return lambda: _bend(nn.Linear(shape[-1], shape[-1]), norm()), _floats(*shape)


def _convs():
    one, two, three = nn.Conv1d, nn.Conv2d, nn.Conv3d
    return {
        "conv1d": (lambda: one(3, 4, 3), _floats(3, 9)),
        "conv1d stride padding": (lambda: one(3, 4, 3, stride=2, padding=2), _floats(3, 9)),
        "conv1d dilation": (lambda: one(3, 4, 3, dilation=2), _floats(3, 9)),
        "conv1d groups": (lambda: one(4, 6, 3, groups=2, bias=False), _floats(4, 9)),
        "conv2d": (lambda: two(2, 3, 3), _floats(2, 7, 8)),
        "conv2d no bias": (lambda: two(2, 3, (2, 3), bias=False), _floats(2, 7, 8)),
        "conv2d stride": (lambda: two(2, 3, 3, stride=(2, 1)), _floats(2, 7, 8)),
        "conv2d padding": (lambda: two(2, 3, 3, padding=(1, 2)), _floats(2, 7, 8)),
        "conv2d padding same": (lambda: two(2, 3, 3, padding="same"), _floats(2, 7, 8)),
        "conv2d dilation": (lambda: two(2, 3, 2, dilation=(2, 3)), _floats(2, 7, 8)),
        "conv2d groups": (lambda: two(4, 6, 3, groups=2), _floats(4, 7, 8)),
        "conv2d by channel": (lambda: two(4, 4, 3, groups=4, padding=1), _floats(4, 7, 8)),
        "conv2d all": (
            lambda: two(4, 6, (3, 2), stride=2, padding=(2, 1), dilation=(1, 2), groups=2),
            _floats(4, 7, 8),
        ),
        "conv3d": (lambda: three(2, 3, 2, stride=2, padding=1), _floats(2, 4, 3, 4)),
    }


CASES = {
    "linear": (lambda: nn.Linear(6, 4), _floats(6)),
    "linear no bias": (lambda: nn.Linear(6, 4, bias=False), _floats(6)),
    "linear sequence": (lambda: nn.Linear(6, 4), _floats(3, 6)),
    "linear long sequence": (lambda: nn.Linear(3, 2), _floats(11, 3)),
    "linear two middle dimensions": (lambda: nn.Linear(6, 4), _floats(2, 3, 6)),
    **_convs(),
    # Without padding_idx: Opacus gives the padding's vector a gradient, autograd does not.
    "embedding": (lambda: nn.Embedding(7, 4), _ids(7, 9)),
    "layer norm": _normed(lambda: nn.LayerNorm(6), 3, 6),
    "layer norm rows": _normed(lambda: nn.LayerNorm(6), 6),
    "layer norm two dimensions": _normed(lambda: nn.LayerNorm((3, 6)), 3, 6),
    "group norm": _normed(lambda: nn.GroupNorm(2, 4), 4, 5, 6),
    "group norm rows": _normed(lambda: nn.GroupNorm(2, 6), 6),
    "instance norm": _normed(lambda: nn.InstanceNorm2d(4, affine=True), 4, 5, 6),
    "conv-gn": (_conv_gn, _floats(2, 6, 6)),
    "transformer": (_transformer, _ids(7, 5)),
}


def _loss(outputs, targets):
    flat = outputs.flatten(1)
    slope = torch.linspace(0.5, 1.5, flat.shape[1], dtype=flat.dtype)
    return ((flat.sin() + flat.square()) * slope).sum(1) * targets


def _theirs(model, inputs, targets):
    """Every row's gradient by parameter name, as Opacus computes it."""
    wrapped = GradSampleModule(copy.deepcopy(model), loss_reduction="sum")
    _loss(wrapped(inputs), targets).sum().backward()
    prefix = "_module."
    return {n.removeprefix(prefix): p.grad_sample for n, p in wrapped.named_parameters()}


@pytest.fixture(scope="module")
def engine():
    return part("engine/bookkeeping")


@pytest.mark.parametrize("name", CASES)
def test_norms_and_clipped_sum_are_those_of_opacus(name, engine):
    torch.manual_seed(0)
    build, rows = CASES[name]
    model, inputs = build().double(), rows()
    targets = torch.rand(ROWS, dtype=torch.float64) + 0.5
    theirs = _theirs(model, inputs, targets)
    for granularity in ("all", "layer", "tensor"):
        groups = clip_groups(model, granularity)
        ours = engine.capture(model, _loss, inputs, targets, groups, None)
        norms = torch.stack(
            [
                torch.cat([theirs[n].flatten(1) for n in members], dim=1).norm(dim=1)
                for members in groups.parameters
            ],
            dim=1,
        )
        torch.testing.assert_close(ours.norms(), norms, rtol=1e-9, atol=1e-12)
        weights = (norms.median(0).values / norms).clamp(max=1.0)
        assert (weights < 1).any()
        clipped = ours.weighted_sum(weights)
        for parameter, gradient in theirs.items():
            expected = torch.tensordot(weights[:, groups.index_of(parameter)], gradient, dims=1)
            torch.testing.assert_close(clipped[parameter], expected, rtol=1e-9, atol=1e-12)
