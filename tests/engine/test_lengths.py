"""Norms by the lengths of factors: float32 where it is safe, and never below the exact numbers."""

import pytest
import torch
from engines import fast

from dpsgd.engine import clip_groups
from dpsgd.engine.lengths import SHORT, outer_norms

ROWS = 40


def _matrix(width, size, offset=0.0):
    return (torch.randn(ROWS, width) + offset) * size


def _exact(factors):
    columns = [
        torch.stack([torch.linalg.vector_norm(matrix.double(), dim=1) for matrix in factor]).prod(0)
        for factor in factors
    ]
    return torch.stack(columns, dim=1)


def _layers(widths, sizes, offset):
    factors = []
    for (p, q), (of_a, of_g) in zip(widths, sizes, strict=True):
        g = _matrix(q, of_g)
        factors += [(g, _matrix(p, of_a, offset)), (g,)]
    return factors


def _norms(factors):
    """The columns of ``outer_norms`` in the order of ``_layers``: a layer's weight, its bias."""
    pairs = factors[::2]
    found = outer_norms(pairs)
    biases, weights = found.chunk(2, dim=1)
    return torch.stack([weights, biases], dim=2).flatten(1)


def _is_never_below(factors):
    found, exact = _norms(factors), _exact(factors)
    assert (found.double() >= exact).all()
    total = torch.linalg.vector_norm(found, dim=1)
    assert torch.isfinite(total).all()
    assert (total.double() >= torch.linalg.vector_norm(exact, dim=1)).all()
    return found, exact


@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 1000.0])
@pytest.mark.parametrize("width", [1, 3, 10, 64, 128, SHORT, SHORT + 1, 1000])
def test_no_length_and_no_norm_is_below_the_exact_one(width, offset):
    torch.manual_seed(0)
    widths, sizes = [(width, 10), (10, width), (width, width)], [(1.0, 1.0), (3.0, 1e-3), (0.1, 9)]
    found, exact = _is_never_below(_layers(widths, sizes, offset))
    assert found.dtype == torch.float32
    assert (found.double() <= exact * (1 + 2e-5)).all()


@pytest.mark.parametrize("of_g", [0.0, 1e-38, 1e-30, 1e-22, 1e-18, 1e-9, 1.0, 1e5, 1e15, 1e30])
@pytest.mark.parametrize("of_a", [0.0, 1e-38, 1e-30, 1e-22, 1e-18, 1e-9, 1.0, 1e5, 1e15, 1e30])
def test_nor_where_squares_underflow_or_overflow(of_a, of_g):
    torch.manual_seed(0)
    factors = _layers([(64, 10), (128, 64)], [(of_a, of_g), (1.0, 1.0)], 0.0)
    found, exact = _is_never_below(factors)
    assert torch.isfinite(found).all()
    assert (found.double() <= exact * (1 + 2e-5) + 1e-11).all()


def test_rows_of_zeros_have_norms_that_no_rule_tells_from_zero():
    factors = _layers([(64, 10)], [(1.0, 1.0)], 0.0)
    for matrix in factors[0]:
        matrix[:5] = 0.0
    found, _ = _is_never_below(factors)
    assert found.dtype == torch.float32
    assert (found[:5] < 1e-11).all()


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_so_and_touches_no_other_row(bad):
    torch.manual_seed(0)
    factors = _layers([(64, 10), (128, 64)], [(1.0, 1.0), (1.0, 1.0)], 0.0)
    right = _exact(factors)
    factors[0][1][3, 7] = bad
    found = _norms(factors)
    assert not torch.isfinite(found[3, 0])
    others = [row for row in range(ROWS) if row != 3]
    torch.testing.assert_close(found[others].double(), right[others], rtol=2e-5, atol=0.0)


def test_float64_is_taken_as_it_comes():
    layers = _layers([(9, 5)], [(1.0, 0.0)], 0.0)
    factors = [tuple(m.double() for m in factor) for factor in layers]
    found = _norms(factors)
    assert found.dtype == torch.float64
    assert (found == 0).all()


@pytest.mark.parametrize("granularity", ["all", "layer", "tensor"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("bias", [True, False])
def test_a_models_norms_are_not_below_those_of_its_kept_factors(granularity, offset, bias):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(30, 50, bias=bias), torch.nn.ReLU(), torch.nn.Linear(50, 7)
    )
    x = torch.randn(ROWS, 30) + offset
    x[:3] = 0.0
    groups = clip_groups(model, granularity)
    found = fast().capture(
        model, lambda o, _: o.square().sum(1), x, torch.zeros(ROWS), groups, None
    )
    exact = {}
    for layer in found.captured.together.layers:
        exact[layer.weight] = _exact([(layer.a, layer.g)])[:, 0]
        exact[layer.bias] = _exact([(layer.g,)])[:, 0]
    right = torch.stack(
        [torch.stack([exact[n] for n in names]).norm(dim=0) for names in groups.parameters], dim=1
    )
    assert (found.norms().double() >= right).all()


def test_matrices_without_a_partner_stand_behind_the_layers():
    torch.manual_seed(0)
    g, a, alone = _matrix(10, 1e-3), _matrix(64, 3.0, 2.0), _matrix(SHORT + 1, 1.0)
    found, exact = outer_norms([(g, a)], [alone]), _exact([(g,), (g, a), (alone,)])
    assert (found.double() >= exact).all()
    assert (found.double() <= exact * (1 + 2e-5)).all()
