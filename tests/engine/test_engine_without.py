"""Units that are left out leave no trace in the sum, whatever was in them."""

import pytest
import torch
from engines import KINDS, engine
from laws import alone, curved_loss, units_of
from nets import WIDTH, case, floats, ids, lin, param
from torch import nn

from dpsgd.engine import clip_groups

W = WIDTH
CASES = {
    "linear": lambda: case(
        floats(4, W), lambda m, x: m.head(torch.tanh(m.a(x))), a=lin(), head=lin()
    ),
    "convolution": lambda: case(
        floats(2, 6), lambda m, x: m.b(torch.relu(m.a(x))), a=nn.Conv1d(2, 4, 3, groups=2),
        b=nn.Conv1d(4, 2, 1),
    ),
    "norm": lambda: case(floats(4, W), lambda m, x: m.b(m.a(x)), a=lin(), b=nn.LayerNorm(W)),
    "parameter": lambda: case(
        floats(4, W), lambda m, x: m.b(x * m.scale), scale=param(W), b=lin()
    ),
    "recurrence": lambda: case(
        floats(4, W), lambda m, x: m.b(m.a(x)[0]), a=nn.GRU(W, W, batch_first=True), b=lin()
    ),
    "position": lambda: case(
        floats(4, W), lambda m, x: m.b(torch.tanh(x + m.a(torch.arange(4)))),
        a=nn.Embedding(4, W), b=lin(),
    ),
    "twice": lambda: case(floats(4, W), lambda m, x: m.a(torch.tanh(m.a(x))), a=lin()),
}  # fmt: skip
BAD = [float("inf"), float("-inf"), float("nan"), 1e200]


@pytest.mark.parametrize("sizes", [5, [2, 0, 3], [1, 2, 1, 1]], ids=str)
@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", CASES)
def test_without_the_bad_unit_the_sum_is_that_of_the_others(kind, name, bad, sizes):
    torch.manual_seed(0)
    made = CASES[kind]()
    units = None if isinstance(sizes, int) else units_of(sizes, "average")
    inputs, targets = made.rows(5), torch.rand(5, dtype=torch.float64)
    groups = clip_groups(made.model, "layer")
    clean = alone(made.model, curved_loss, inputs, targets, groups, units)
    inputs = inputs.clone()
    inputs[3, 0, 0] = bad
    unit = 3 if units is None else int(units.unit[3])
    found = engine(name, non_finite="drop").capture(
        made.model, curved_loss, inputs, targets, groups, units
    )
    dropped = torch.arange(len(clean.norms)) == unit
    norms = found.norms()
    torch.testing.assert_close(norms[~dropped], clean.norms[~dropped], rtol=1e-8, atol=1e-10)
    weights = torch.rand(norms.shape, dtype=torch.float64)
    kept = found.without(dropped)
    sums = kept.weighted_sum(weights)
    clean.gradients[unit] = {n: torch.zeros_like(v) for n, v in clean.gradients[unit].items()}
    torch.testing.assert_close(
        sums, clean.weighted_sum(weights, groups), rtol=1e-8, atol=1e-10, check_dtype=False
    )
    assert all(value.isfinite().all() for value in sums.values())
    assert kept.norms().shape == norms.shape
    assert (kept.norms()[dropped] == 0).all()
    assert torch.equal(kept.norms()[~dropped], norms[~dropped])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_bad_row_shows_in_the_norm_of_its_own_unit_alone(name, bad):
    torch.manual_seed(0)
    made = CASES["linear"]()
    inputs, targets = made.rows(5), torch.rand(5, dtype=torch.float64)
    inputs[2, 1] = bad
    groups = clip_groups(made.model, "all")
    norms = engine(name).capture(made.model, curved_loss, inputs, targets, groups, None).norms()
    assert (norms.isfinite().all(1) == (torch.arange(5) != 2)).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dropped", [[], [0, 1, 2]], ids=str)
def test_none_or_all_can_be_left_out(name, dropped):
    made = case(ids(5, 3), lambda m, x: m.head(m.words(x)), words=nn.Embedding(5, W), head=lin())
    groups = clip_groups(made.model, "tensor")
    found = engine(name).capture(
        made.model, curved_loss, made.rows(3), torch.rand(3, dtype=torch.float64), groups, None
    )
    gone = torch.zeros(3, dtype=torch.bool)
    gone[dropped] = True
    ones = torch.ones(3, len(groups), dtype=torch.float64)
    before, after = found.weighted_sum(ones), found.without(gone).weighted_sum(ones)
    for parameter, value in before.items():
        assert torch.equal(after[parameter], torch.zeros_like(value) if dropped else value)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_can_be_left_out_of_nothing(name):
    made = CASES["linear"]()
    groups = clip_groups(made.model, "all")
    found = engine(name).capture(
        made.model, curved_loss, made.rows(0), torch.zeros(0, dtype=torch.float64), groups, None
    )
    kept = found.without(torch.zeros(0, dtype=torch.bool))
    sums = kept.weighted_sum(torch.zeros(0, 1, dtype=torch.float64))
    assert all(not value.any() for value in sums.values())
