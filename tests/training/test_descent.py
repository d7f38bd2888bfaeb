import pytest
import torch

from dpsgd.flattened import Flattened, empty
from dpsgd.training.optim import SGD


@pytest.mark.parametrize("factor", [0.25, 1.0])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_five_steps_are_those_of_torch(momentum, factor):
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
        descent.step(mean, flat, 0.5, factor)
        for name, parameter in right.items():
            parameter.grad = 0.5 * mean[name] + factor * noise[name]
        reference.step()
    torch.testing.assert_close(own, right)


def test_noise_in_another_order_is_refused():
    own = {"w": torch.nn.Parameter(torch.ones(2)), "b": torch.nn.Parameter(torch.ones(2))}
    descent = SGD("sgd", 0.3, 0.1, 0.9, "fixed").build(own, "private")
    noise = Flattened(torch.ones(4), {"b": torch.ones(2), "w": torch.ones(2)})
    with pytest.raises(ValueError, match="noise of"):
        descent.step({name: torch.ones(2) for name in own}, noise, 1.0, 1.0)


def test_parts_of_one_tensor_have_the_shapes_and_types_of_their_parameters():
    like = {"w": torch.ones(2, 3), "b": torch.ones((), dtype=torch.float64)}
    flat = empty(like)
    flat.vector.copy_(torch.arange(7))
    assert flat.vector.dtype == torch.float64
    assert [(*flat[name].shape, flat[name].dtype) for name in flat] == [
        (2, 3, torch.float32), (torch.float64,)
    ]  # fmt: skip
    assert torch.equal(flat["w"], torch.arange(6.0).view(2, 3))
    assert float(flat["b"]) == 6
