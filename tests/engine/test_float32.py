"""In float32 a norm never comes out too small: not beside the truth, nor beside what is summed."""

import copy

import pytest
import torch
from engines import KINDS, engine
from laws import alone, units_of
from nets import Net, param
from torch import nn

from dpsgd.engine import clip_groups

TOO_SMALL = 1e-5


def _sum(outputs, targets):
    return outputs.flatten(1).sum(1)


def _sloped(layer, inputs, positions, rest, bump=0.0):
    """Return a model whose output gradients are known exactly, and of whose sum over the positions
    only ``rest`` remains. If nothing does, biases have no gradient to speak of and are frozen.
    """
    with torch.no_grad():
        slope = torch.randn(layer(inputs[:1]).shape[1:])
    slope = slope - (1 - rest) * slope.mean(positions, keepdim=True)
    if bump:
        slope = slope + bump * (1 - 2 * (torch.arange(len(slope)) % 2))[:, None]
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(rest > 0 or name != "bias")
    return Net(lambda m, x: m.layer(x) * m.slope, layer=layer, slope=slope), inputs


def _of(layer, shape, positions):
    return lambda offset, rest: _sloped(layer(), torch.randn(6, *shape) + offset, positions, rest)


def _repeated_tokens(words):
    return lambda offset, rest: _sloped(
        nn.Embedding(words, 8), torch.randint(2, (6, 12)), (0,), rest, offset
    )


def _scale(offset, rest):
    layer = Net(lambda m, x: x * m.scale, scale=param(8))
    return _sloped(layer, torch.randn(6, 5, 8) + offset, (0,), rest)


CASES = {
    "linear": _of(lambda: nn.Linear(24, 24), (3, 24), (0,)),
    "linear, long": _of(lambda: nn.Linear(4, 4), (20, 4), (0,)),
    "linear, rank 4": _of(lambda: nn.Linear(24, 24), (2, 2, 24), (0, 1)),
    "conv1d": _of(lambda: nn.Conv1d(3, 4, 3, padding=1), (3, 16), (1,)),
    "conv1d, wide": _of(lambda: nn.Conv1d(24, 24, 3, padding=1), (24, 4), (1,)),
    "conv2d": _of(lambda: nn.Conv2d(3, 4, 3), (3, 6, 6), (1, 2)),
    "conv2d, wide": _of(lambda: nn.Conv2d(16, 24, 3), (16, 4, 4), (1, 2)),
    "depthwise": _of(lambda: nn.Conv2d(4, 4, 3, groups=4), (4, 6, 6), (1, 2)),
    "transposed": _of(lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), (3, 6), (1,)),
    "repeated tokens": _repeated_tokens(4),
    "repeated tokens of many": _repeated_tokens(100),
    "scale": _scale,
    "layer norm": _of(lambda: nn.LayerNorm(16), (5, 16), (0,)),
    "group norm": _of(lambda: nn.GroupNorm(2, 4), (4, 4, 4), (1, 2)),
}


@pytest.mark.parametrize("sizes", [6, [3, 1, 0, 2]], ids=str)
@pytest.mark.parametrize("rest", [0.0, 0.3])
@pytest.mark.parametrize("offset", [0.0, 100.0, 1000.0])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", CASES)
def test_norms_in_float32_never_come_out_too_small(kind, name, offset, rest, sizes):
    torch.manual_seed(0)
    model, inputs = CASES[kind](offset, rest)
    targets, groups = torch.zeros(6), clip_groups(model, "tensor")
    units = None if isinstance(sizes, int) else units_of(sizes, "sum")
    found = engine(name).capture(model, _sum, inputs, targets, groups, units)
    norms = found.norms()
    assert norms.dtype == torch.float32
    exact = copy.deepcopy(model).double()
    wide = inputs.double() if inputs.is_floating_point() else inputs
    right = alone(exact, _sum, wide, targets.double(), groups, units).norms
    # What float32 itself rounds away in autograd's own gradient, and where a norm layer subtracts
    # the offset in its forward pass.
    rounds = "norm" in kind or kind == "scale" or name == "materialised"
    lost = 5e-7 * offset if rounds else 0.0
    assert (norms.double() >= right * (1 - TOO_SMALL - lost)).all()
    for u in range(len(norms)):
        only = torch.zeros_like(norms)
        only[u] = 1
        for parameter, value in found.weighted_sum(only).items():
            bound = norms[u, groups.index_of(parameter)].double()
            assert value.double().norm() <= bound * (1 + TOO_SMALL)
