import pytest
import torch
from torch import nn
from torch.nn import functional

from dpsgd.engine import Bookkeeping, clip_groups
from dpsgd.engine.checks import check_engine, check_rows_apart
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.training.loop import cross_entropy

X, Y = torch.rand(4, 3, 4, 4), torch.randint(5, (4,))


class BatchMean(nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)


def _with(layer):
    return nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.Flatten(), nn.Linear(64, 5))


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.BatchNorm2d(4), r"model=1 \(BatchNorm2d\).*GroupNorm"),
        (BatchMean(), r"model=1 \(BatchMean\)"),
        (nn.InstanceNorm2d(4, track_running_stats=True), r"model=1 \(InstanceNorm2d\).*buffer"),
    ],
)
def test_a_module_that_mixes_rows_is_refused_by_name(layer, name):
    with pytest.raises(ConfigError, match=name):
        check_rows_apart(_with(layer), cross_entropy, X, Y)


@pytest.mark.parametrize("layer", [nn.GroupNorm(2, 4), nn.Dropout(0.5), nn.Tanh()])
def test_modules_that_keep_rows_apart_pass(layer):
    check_rows_apart(_with(layer), cross_entropy, X, Y)


def test_a_loss_over_the_batch_is_refused():
    with pytest.raises(ConfigError, match="one value a row"):
        check_rows_apart(_with(nn.Tanh()), functional.cross_entropy, X, Y)


def test_parameters_used_outside_their_layer_are_found():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(48, 5)

        def forward(self, x):
            x = x.flatten(1)
            return self.a(x) + functional.linear(x.flip(1), self.a.weight)

    model = Functional()
    with pytest.raises(PrivacyError, match="engine=fast"):
        check_engine(Bookkeeping("fast"), model, cross_entropy, X, Y, clip_groups(model, "all"))
