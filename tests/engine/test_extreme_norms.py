"""Norms of gradients whose parts float32 cannot hold, nearly cancel or are many: what a unit adds
to the sum is never longer than its norm says.
"""

import pytest
import torch
from engines import KINDS, engine
from torch import nn

from dpsgd.engine import Units, clip_groups

CLOSE = 1e-5
"""What the step's safety factor makes up for."""


class Own(nn.Linear):
    """A layer that takes the general path."""

    def forward(self, x):
        return super().forward(x)


def _weighted(outputs, slopes):
    return (outputs * slopes).flatten(1).sum(1)


def _excess(name, model, inputs, slopes, units=None):
    """How far what is summed of the first unit is above its norm, as a share of the norm."""
    groups = clip_groups(model, "all")
    found = engine(name).capture(model, _weighted, inputs, slopes, groups, units)
    norms = found.norms()
    norm, first = float(norms[0]), torch.zeros_like(norms)
    first[0] = 1.0
    summed = found.weighted_sum(first)
    length = torch.cat([value.double().flatten() for value in summed.values()]).norm()
    return float(length) / norm - 1


ONE = Units.of(torch.tensor([0]), 1, "sum")
TWO = Units.of(torch.tensor([0, 0]), 1, "sum")
UNEVEN = Units.of(torch.tensor([0, 0, 1]), 2, "sum")
FAR_APART = {
    "user": (lambda: nn.Linear(3, 2, bias=False), (1, 3), (1, 2), ONE),
    "user of two rows": (lambda: nn.Linear(3, 2, bias=False), (2, 3), (2, 2), TWO),
    "users apart": (lambda: nn.Linear(3, 2, bias=False), (3, 3), (3, 2), UNEVEN),
    "record": (lambda: nn.Linear(3, 2, bias=False), (1, 3), (1, 2), None),
    "sequence of one": (lambda: nn.Linear(64, 64, bias=False), (1, 1, 64), (1, 1, 64), None),
    "sequence": (lambda: nn.Linear(64, 64, bias=False), (1, 2, 64), (1, 2, 64), None),
    "image": (lambda: nn.Conv2d(64, 64, 3, bias=False), (1, 64, 4, 4), (1, 64, 2, 2), None),
}


@pytest.mark.parametrize(("a", "g"), [(1e18, 1e-23), (1e16, 5e-22), (1e7, 1e-20), (1e-20, 1e7)])
@pytest.mark.parametrize("case", FAR_APART)
@pytest.mark.parametrize("name", KINDS)
def test_a_small_factor_beside_a_large_one_is_not_lost(name, case, a, g):
    build, shape, out, units = FAR_APART[case]
    inputs = torch.zeros(shape)
    inputs[:, 0] = a
    assert _excess(name, build(), inputs, torch.full(out, g), units) <= CLOSE


@pytest.mark.parametrize("layer", [nn.Linear, Own])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_squares_of_millions_are_not_lost_where_they_are_added(name, equal, layer):
    torch.manual_seed(0)
    inputs, slopes = torch.randn(1, 1801), torch.randn(1, 1800)
    if equal:
        inputs, slopes = torch.full_like(inputs, 0.1), torch.full_like(slopes, 0.37)
    assert _excess(name, layer(1801, 1800, bias=False), inputs, slopes) <= CLOSE


def _nearly_opposite(seed):
    """Two positions whose gradients cancel but for a few per cent."""
    torch.manual_seed(seed)
    p, q = torch.randint(8, 60, (2,)).tolist()
    small = 0.02 + 0.06 * torch.rand(1)
    a, g = torch.randn(1, p), torch.randn(1, q)
    a = torch.cat([a, a + small * torch.randn(1, p)])
    g = torch.cat([g, -g + small * torch.randn(1, q)])
    return nn.Linear(p, q, bias=False), a, g


@pytest.mark.parametrize("seed", range(40))
def test_what_nearly_cancels_is_not_reported_as_less(seed):
    layer, a, g = _nearly_opposite(seed)
    assert _excess("bookkeeping", layer, a[None], g[None]) <= CLOSE
    assert _excess("bookkeeping", layer, a, g, TWO) <= CLOSE
    beside = (torch.cat([x, x[:1]]) for x in (a, g))
    assert _excess("bookkeeping", layer, *beside, UNEVEN) <= CLOSE


def test_a_gradient_changed_behind_torchs_back_touches_no_later_batch():
    torch.manual_seed(0)
    model, groups = nn.Linear(3, 1), clip_groups(nn.Linear(3, 1), "all")
    inputs, targets = torch.randn(4, 3), torch.zeros(4)
    on = False

    def silence(g):
        if on:
            g.data[3] = 0.0  # which no version of the tensor tells of

    def hushed(outputs, _):
        if outputs.requires_grad:
            outputs.register_hook(silence)
        return outputs.squeeze(1)

    fast = engine("bookkeeping")
    right = fast.capture(model, hushed, inputs, targets, groups, None).norms()
    on = True
    fast.capture(model, hushed, inputs, targets, groups, None)
    on = False
    assert torch.equal(fast.capture(model, hushed, inputs, targets, groups, None).norms(), right)


def test_a_batch_in_inference_mode_leaves_later_ones_alone():
    model, groups = nn.Linear(3, 1), clip_groups(nn.Linear(3, 1), "all")
    given = torch.randn(4, 3), torch.zeros(4)
    fast = engine("bookkeeping")
    fast.capture(model, lambda o, _: o[:, 0], *given, groups, None)
    with torch.inference_mode():
        fast.capture(model, lambda o, _: o[:, 0], *given, groups, None)
    assert (fast.capture(model, lambda o, _: o[:, 0], *given, groups, None).norms() > 0).all()
