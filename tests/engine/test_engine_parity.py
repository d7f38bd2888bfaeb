"""The fast engine and the slow one agree in float32, and neither hides what it cannot do."""

import pytest
import torch
from engines import KINDS, engine, fast, slow
from laws import curved_loss
from nets import WIDTH, Net, lin, param
from torch import nn

from dpsgd.engine import clip_groups

W = WIDTH
MODELS = {
    "layers": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.GroupNorm(2, 4), nn.Flatten(),
        nn.Linear(64, 5),
    ),
    "wide layers": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.Linear(64, 5)),
    "long sequence": lambda: Net(
        lambda m, x: m.a(x.flatten(1)[..., None]).tanh().sum(1), a=nn.Linear(1, 5)
    ),
    "recurrence and parameters": lambda: Net(
        lambda m, x: m.a(x[:, 0] * m.scale)[0], a=nn.GRU(4, 4, batch_first=True), scale=param(4)
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_float32_agrees_with_the_oracle_to_1e_5(model):
    torch.manual_seed(1)
    model = MODELS[model]()
    inputs, targets = torch.randn(9, 1, 4, 4), torch.rand(9)
    groups = clip_groups(model, "layer")
    found, right = (
        chosen.capture(model, curved_loss, inputs, targets, groups, None)
        for chosen in (fast(), slow())
    )
    assert torch.allclose(found.norms(), right.norms(), rtol=1e-5)
    weights = torch.rand(9, len(groups))
    sums = found.weighted_sum(weights)
    for name, value in right.weighted_sum(weights).items():
        assert sums[name].dtype == torch.float32
        assert (sums[name] - value).norm() < 1e-5 * value.norm().clamp_min(1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_an_input_changed_in_place_is_refused(name):
    """Plain autograd refuses it too: the layer needs its input again in the backward pass."""

    def does(m, x):
        x = x * 1
        y = m.first(x)
        x += 1
        return m.second(y + x)

    model = Net(does, first=lin(), second=lin())
    groups = clip_groups(model, "all")
    with pytest.raises(RuntimeError, match=r"in.?place"):
        engine(name).capture(
            model, curved_loss, torch.randn(2, W), torch.rand(2), groups, None
        ).norms()
