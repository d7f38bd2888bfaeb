"""Dropout draws once: norms and sums are those of the masks that the losses had."""

import pytest
import torch
from engines import KINDS, engine, fast
from laws import curved_loss
from nets import WIDTH, case, floats, lin
from torch import nn

from dpsgd.engine import clip_groups

W = WIDTH


def _fast():
    return case(
        floats(4, W),
        lambda m, x: m.head(m.drop(torch.tanh(m.norm(m.a(x))))),
        a=lin(), norm=nn.LayerNorm(W), drop=nn.Dropout(0.5), head=lin(),
    )  # fmt: skip


CASES = {
    "fast layers": _fast,
    "convolution, in place": lambda: case(
        floats(2, 6),
        lambda m, x: m.b(m.drop(m.a(x))),
        a=nn.Conv1d(2, 4, 3), drop=nn.Dropout1d(0.5), b=nn.Conv1d(4, 2, 1),
    ),
    "recurrence": lambda: case(
        floats(4, W),
        lambda m, x: m.head(m.drop(m.a(m.drop(x))[0])),
        a=nn.GRU(W, W, batch_first=True), drop=nn.Dropout(0.5), head=lin(),
    ),
    "encoder": lambda: case(
        floats(4, 4),
        lambda m, x: m.a(x),
        a=nn.TransformerEncoderLayer(4, 2, 5, dropout=0.5, batch_first=True),
    ),
}  # fmt: skip


def _captured(chosen, made, rows):
    inputs, targets = made.rows(rows), torch.rand(rows, dtype=torch.float64)
    groups = clip_groups(made.model, "layer")
    chosen.capture(made.model, curved_loss, inputs, targets, groups, None)
    torch.manual_seed(7)
    found = chosen.capture(made.model, curved_loss, inputs, targets, groups, None)
    return found, inputs, targets, groups


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", CASES)
def test_the_norm_is_that_of_the_gradient_that_is_summed(kind, name):
    torch.manual_seed(0)
    found, inputs, _, groups = _captured(engine(name), CASES[kind](), 5)
    norms = found.norms()
    for u in range(len(inputs)):
        only = torch.zeros_like(norms)
        only[u] = 1
        sums = found.weighted_sum(only)
        for g, members in enumerate(groups.parameters):
            own = torch.cat([sums[n].flatten() for n in members]).norm()
            torch.testing.assert_close(own, norms[u, g], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rows", [1, 5])
def test_losses_norms_and_sums_are_of_the_masks_that_were_drawn(rows):
    torch.manual_seed(0)
    made = _fast()
    found, inputs, targets, _ = _captured(fast(), made, rows)
    torch.manual_seed(7)
    losses = curved_loss(made.model(inputs), targets)
    torch.testing.assert_close(found.losses, losses.detach())
    parameters = dict(made.model.named_parameters())
    gradients = [
        dict(zip(parameters, torch.autograd.grad(
            losses[u], list(parameters.values()), retain_graph=True
        ), strict=True))
        for u in range(rows)
    ]  # fmt: skip
    norms = found.norms()
    for g, members in enumerate(clip_groups(made.model, "layer").parameters):
        for u, own in enumerate(gradients):
            right = torch.cat([own[n].flatten() for n in members]).norm()
            torch.testing.assert_close(norms[u, g], right, rtol=1e-8, atol=1e-10)
    for parameter, value in found.weighted_sum(torch.ones_like(norms)).items():
        right = sum(own[parameter] for own in gradients)
        torch.testing.assert_close(value, right, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", CASES)
def test_every_row_draws_its_own_mask_and_every_capture_another(kind, name):
    torch.manual_seed(0)
    made = CASES[kind]()
    inputs = made.rows(1)
    inputs = inputs.expand(6, *inputs.shape[1:]).clone()
    targets, groups = torch.ones(6, dtype=torch.float64), clip_groups(made.model, "all")
    first, second = (
        engine(name).capture(made.model, curved_loss, inputs, targets, groups, None).norms()
        for _ in range(2)
    )
    assert len(first.unique()) == 6
    assert not torch.isclose(first, second).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", CASES)
def test_the_same_stream_gives_the_same_masks(kind, name):
    torch.manual_seed(0)
    made = CASES[kind]()
    inputs, targets = made.rows(4), torch.rand(4, dtype=torch.float64)
    groups = clip_groups(made.model, "all")
    found = []
    for _ in range(3):
        torch.manual_seed(11)
        chosen = engine(name)
        found.append(chosen.capture(made.model, curved_loss, inputs, targets, groups, None).norms())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[1], found[2])
