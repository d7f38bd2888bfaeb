"""No unit moves the released sum by more than its scale, whatever float32 does to its norm."""

import pytest
import torch
from engines import KINDS, engine
from torch import nn

from dpsgd import part
from dpsgd.engine import Units, clip_groups
from dpsgd.training.loss import cross_entropy
from dpsgd.training.step import private_step

RULES = {
    "flat": part("clip/flat", norm=0.1),
    "AUTO-V": part("clip/automatic", variant="AUTO-V"),
    "AUTO-S": part("clip/automatic", variant="AUTO-S"),
}


def moved(model, rule, inputs, targets, units, name):
    """The length of the released sum of one unit, as a part of what the rule allows."""
    groups = clip_groups(model, "all")
    captured = engine(name).capture(model, cross_entropy, inputs, targets, groups, units)
    state = rule.bind(groups, 1.0, 1.0)
    found = private_step(
        [captured], rule, state, groups, {}, clipping=True, noise_multiplier=0.0,
        expected_units=1.0, generator=torch.Generator(),
    )  # fmt: skip
    length = torch.cat([value.flatten().double() for value in found.mean.values()]).norm()
    return float(length / rule.scale(state))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("width", "rows", "offset"),
    [(64, 240, 1e2), (64, 240, 1e4), (784, 64, 1e4), (3000, 240, 1.0)],
)
def test_a_user_whose_records_cancel_stays_within_the_scale(width, rows, offset, rule, name):
    torch.manual_seed(0)
    model = nn.Linear(width, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-9)
    units = Units.of(torch.zeros(rows, dtype=torch.int64), 1, "sum")
    for apart in (1e-9, 1e-7, 1e-5):
        inputs = torch.rand(1, width) * offset * (1 + apart * torch.randn(rows, width))
        share = moved(model, RULES[rule], inputs, torch.arange(rows) % 2, units, name)
        assert share <= 1 + 2e-5


class Normalised(nn.Module):
    """Output gradients of the first layer grow as its inputs shrink."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4000, 8, bias=False), nn.Linear(8, 3, bias=False)

    def forward(self, x):
        return self.last(nn.functional.normalize(self.first(x), dim=1))


@pytest.mark.parametrize("units", [None, Units.of(torch.zeros(1, dtype=torch.int64), 1, "sum")])
@pytest.mark.parametrize("size", [1.0, 1e-10, 2e-23, 1.5e-23])
@pytest.mark.parametrize("rule", RULES)
def test_an_input_whose_squares_underflow_stays_within_the_scale(rule, size, units):
    torch.manual_seed(0)
    inputs = torch.randn(1, 4000).sign() * size
    share = moved(Normalised(), RULES[rule], inputs, torch.tensor([1]), units, "bookkeeping")
    assert share <= 1 + 1e-6
