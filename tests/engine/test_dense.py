"""Small linear layers of vectors: what their fast way takes for granted may change at any batch."""

import pytest
import torch
from engines import fast
from laws import Case, alone, check_equal, curved_loss
from nets import WIDTH, case, floats, lin

from dpsgd.engine import clip_groups
from dpsgd.errors import PrivacyError

W = WIDTH


def _dense(model, rows, dtype=torch.float64):
    """The names of what is measured together as a layer."""
    inputs, targets = rows(4).to(dtype), torch.rand(4, dtype=dtype)
    found = (
        fast()
        .capture(model, curved_loss, inputs, targets, clip_groups(model, "all"), None)
        .captured.together
    )
    return [] if found is None else [layer.weight for layer in found.layers]


def test_they_are_measured_together_in_the_order_of_their_calls():
    torch.manual_seed(0)
    made = case(floats(W), lambda m, x: m.a(m.b(x)), a=lin(), b=lin(bias=False))
    assert _dense(made.model, made.rows) == ["b.weight", "a.weight"]
    for granularity in ("all", "layer", "tensor"):
        check_equal(fast(), made, 4, granularity)
        check_equal(fast(), made, [3, 0, 2], granularity)


@pytest.mark.parametrize(
    "does",
    [
        lambda m, x: m.a(m.a(x)) if m.stage else m.a(x),
        lambda m, x: m.a(x) + m.stage * m.a(2 * x),
        lambda m, x: m.a(x[:, None] if m.stage else x).reshape(len(x), W),
        lambda m, x: m.a(input=x) if m.stage else m.a(x),
        lambda m, x: m.a(x).mul_(2.0) if m.stage else m.a(x),
    ],
)
def test_a_layer_may_be_used_in_another_way_later(does):
    torch.manual_seed(0)
    made = case(floats(W), does, a=lin())
    made.model.stage = 0
    check_equal(fast(), made, 4)
    for stage in (1, 0, 1):
        made.model.stage = stage
        check_equal(fast(), made, 4)
        check_equal(fast(), made, [2, 1])


def test_one_that_shares_a_parameter_is_not_taken_for_alone():
    torch.manual_seed(0)
    made = case(floats(W), lambda m, x: m.b(torch.tanh(m.a(x))), a=lin(), b=lin())
    made.model.b.bias = made.model.a.bias
    assert _dense(made.model, made.rows) == []
    check_equal(fast(), made, 4, "tensor")


def test_one_whose_input_is_changed_in_place_is_refused():
    torch.manual_seed(0)
    made = case(floats(W), lambda m, x: m.a(y := m.b(x)) + y.mul_(m.stage), a=lin(), b=lin())
    made.model.stage = 1
    with pytest.raises((PrivacyError, RuntimeError), match=r"in.?place"):
        check_equal(fast(), made, 4)


def test_a_large_one_and_too_many_rows_of_users_are_measured_by_themselves():
    torch.manual_seed(0)
    made = case(floats(300), lambda m, x: m.b(torch.tanh(m.a(x))), a=lin(300, 200), b=lin(200, W))
    assert _dense(made.model, made.rows) == ["a.weight", "b.weight"]
    check_equal(fast(), Case(made.model, floats(300)), [100, 157], "layer")
    check_equal(fast(), Case(made.model, floats(300)), 140, "layer")


class _Writes(torch.autograd.Function):
    """A loss whose backward pass, once it is on, writes into the gradient that it is given."""

    on = False

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.mul_(3.0) if _Writes.on else gradient


def test_a_backward_pass_that_writes_where_it_should_not_touches_no_later_one(monkeypatch):
    torch.manual_seed(0)
    made = case(floats(W), lambda m, x: m.a(x), a=lin())
    inputs, targets = made.rows(4), torch.rand(4, dtype=torch.float64)
    groups = clip_groups(made.model, "all")

    def loss(outputs, targets):
        return _Writes.apply(curved_loss(outputs, targets))

    right = alone(made.model, curved_loss, inputs, targets, groups, None).norms
    for on, factor in [(False, 1.0), (True, 3.0), (True, 3.0), (False, 1.0)]:
        monkeypatch.setattr(_Writes, "on", on)
        found = fast().capture(made.model, loss, inputs, targets, groups, None).norms()
        torch.testing.assert_close(found, factor * right)
