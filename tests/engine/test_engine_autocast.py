"""Half precision may run the model; norms and sums are float32, inside autocast and out."""

import pytest
import torch
from engines import KINDS, engine
from laws import alone, curved_loss
from nets import WIDTH, Net, lin, param
from torch import nn

from dpsgd.engine import clip_groups

W = WIDTH


def _net():
    return Net(
        lambda m, x: m.head(m.scale * torch.tanh(m.norm(m.conv(x).transpose(1, 2)))),
        conv=nn.Conv1d(2, 8, 3, padding=1), norm=nn.LayerNorm(8), scale=param(8), head=lin(8, 4),
    )  # fmt: skip


class Inside(nn.Module):
    """A model whose own forward pass runs in half precision."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(x)


def _loss(outputs, targets):
    return curved_loss(outputs.float(), targets)


def _batch(rows=6):
    return torch.randn(rows, 2, 5), torch.rand(rows)


def _near(found, right, groups):
    norms = found.norms()
    assert norms.dtype == torch.float32
    torch.testing.assert_close(norms, right.norms, rtol=0.02, atol=1e-4)
    weights = torch.rand(norms.shape)
    sums, expected = found.weighted_sum(weights), right.weighted_sum(weights, groups)
    for name, value in sums.items():
        assert value.dtype == torch.float32
        gap = (value - expected[name]).norm() / expected[name].norm()
        assert gap < 0.02
    return norms


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("where", ["engine", "model"])
def test_autocast_changes_norms_and_sums_by_rounding_only(where, name):
    torch.manual_seed(0)
    model = _net()
    (inputs, targets), groups = _batch(), clip_groups(model, "layer")
    right = alone(model, _loss, inputs, targets, groups, None)
    if where == "model":
        model, groups = Inside(model), clip_groups(Inside(model), "layer")
        right = alone(model.net, _loss, inputs, targets, clip_groups(model.net, "layer"), None)
        right = type(right)(
            right.norms, right.gradients, {f"net.{n}": v for n, v in right.like.items()}
        )
        right.gradients[:] = [{f"net.{n}": v for n, v in own.items()} for own in right.gradients]
    chosen = engine(name, autocast="bfloat16" if where == "engine" else None)
    found = chosen.capture(model, _loss, inputs, targets, groups, None)
    norms = _near(found, right, groups)
    assert not torch.equal(norms, right.norms)


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_never_in_half_precision(name):
    torch.manual_seed(0)
    model, (inputs, targets) = _net(), _batch()
    groups = clip_groups(model, "all")
    found = engine(name, autocast="bfloat16").capture(model, _loss, inputs, targets, groups, None)
    assert found.losses.dtype == torch.float32


@pytest.mark.parametrize("name", KINDS)
def test_norms_and_sums_are_exact_when_asked_for_inside_autocast(name):
    torch.manual_seed(0)
    model, (inputs, targets) = _net(), _batch()
    groups = clip_groups(model, "tensor")
    weights = torch.rand(len(inputs), len(groups))
    found = engine(name).capture(model, _loss, inputs, targets, groups, None)
    outside = found.norms(), found.weighted_sum(weights)
    again = engine(name).capture(model, _loss, inputs, targets, groups, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = again.norms(), again.weighted_sum(weights)
    torch.testing.assert_close(inside, outside, rtol=0, atol=0)


@pytest.mark.parametrize("name", KINDS)
def test_large_gradients_do_not_overflow(name):
    torch.manual_seed(0)
    model, (inputs, targets) = _net(), _batch()
    groups = clip_groups(model, "all")

    def steep(outputs, targets):
        return 1e6 * _loss(outputs, targets)

    found = engine(name, autocast="bfloat16").capture(model, steep, inputs, targets, groups, None)
    right = alone(model, _loss, inputs, targets, groups, None)
    torch.testing.assert_close(found.norms() / 1e6, right.norms, rtol=0.02, atol=1e-4)
