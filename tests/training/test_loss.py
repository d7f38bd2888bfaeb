"""The loss of a row is its own, and the mean over its own tokens."""

import pytest
import torch

from dpsgd.data.bundle import IGNORED
from dpsgd.training.loss import cross_entropy


def test_a_class_costs_its_negative_log_probability():
    outputs, targets = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    expected = [-torch.log_softmax(o, 0)[t] for o, t in zip(outputs, targets, strict=True)]
    assert torch.allclose(cross_entropy(outputs, targets), torch.stack(expected))


def test_a_row_of_tokens_costs_the_mean_over_its_own_tokens():
    torch.manual_seed(0)
    outputs, targets = torch.randn(3, 4, 5), torch.randint(5, (3, 4))
    targets[1, 1:] = IGNORED
    targets[2, 0] = IGNORED
    losses = cross_entropy(outputs, targets)
    for row, (o, t) in enumerate(zip(outputs, targets, strict=True)):
        known = t != IGNORED
        assert torch.allclose(losses[row], cross_entropy(o[known], t[known]).mean())


def test_a_row_without_tokens_costs_nothing_and_has_no_gradient():
    outputs = torch.randn(2, 3, 4, requires_grad=True)
    targets = torch.tensor([[IGNORED] * 3, [1, 2, 3]])
    losses = cross_entropy(outputs, targets)
    assert losses[0] == 0 < losses[1]
    losses.sum().backward()
    assert outputs.grad is not None
    assert (outputs.grad[0] == 0).all()
    assert (outputs.grad[1] != 0).any()


@pytest.mark.parametrize("task", ["classes", "tokens"])
def test_one_row_at_a_time_gives_the_same(task):
    shape = (5,) if task == "classes" else (5, 3)
    outputs, targets = torch.randn(*shape, 4), torch.randint(4, shape)
    alone = [cross_entropy(o[None], t[None])[0] for o, t in zip(outputs, targets, strict=True)]
    mapped = torch.func.vmap(lambda o, t: cross_entropy(o[None], t[None])[0])(outputs, targets)
    together = cross_entropy(outputs, targets)
    assert torch.allclose(together, torch.stack(alone))
    assert torch.allclose(together, mapped)


def test_no_rows_have_no_losses():
    assert cross_entropy(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)).shape == (0,)
    assert cross_entropy(torch.zeros(0, 2, 4), torch.zeros(0, 2, dtype=torch.int64)).shape == (0,)


@pytest.mark.parametrize(("outputs", "targets"), [((3, 4), (3, 1)), ((3, 2, 4), (3,)), ((3,), ())])
def test_shapes_that_do_not_fit_are_refused(outputs, targets):
    with pytest.raises(ValueError, match="do not fit"):
        cross_entropy(torch.zeros(outputs), torch.zeros(targets, dtype=torch.int64))
