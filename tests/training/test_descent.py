import pytest
import torch

from dpsgd.flattened import Flattened
from dpsgd.training.optim import SGD


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_five_steps_are_those_of_torch(momentum):
    generator = torch.Generator().manual_seed(0)
    shapes = {"w": (3, 2), "b": ()}
    drawn = [
        {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for _ in range(10)
    ]
    own = {name: torch.nn.Parameter(torch.ones_like(v)) for name, v in drawn[0].items()}
    right = {name: torch.nn.Parameter(torch.ones_like(v)) for name, v in drawn[0].items()}
    descent = SGD("sgd", 0.3, 0.1, momentum, "fixed").build(own, "private")
    reference = torch.optim.SGD(right.values(), lr=0.3, momentum=momentum)
    for mean, noise in zip(drawn[:5], drawn[5:], strict=True):
        flat = Flattened(torch.cat([v.flatten() for v in noise.values()]), noise)
        descent.step(mean, flat, 0.5, 0.25)
        for name, parameter in right.items():
            parameter.grad = 0.5 * mean[name] + 0.25 * noise[name]
        reference.step()
    torch.testing.assert_close(own, right)
