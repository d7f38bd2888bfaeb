"""The quick look at the envelope lets nothing through that the exact one refuses."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd.errors import PrivacyError
from dpsgd.training.covered import check_envelope, surely_covered

NUMBERS = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0, 1.01, 2.0, -0.1, math.inf, -math.inf, math.nan])
SCALES = st.sampled_from([0.0, 0.5, 1.0, 2.0, math.inf, -1.0])


def _is_refused(scales, norms, weights, query):
    try:
        check_envelope("planted", scales, norms, weights, query)
    except PrivacyError:
        return True
    return False


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.data())
def test_what_is_surely_covered_is_not_refused(data):
    units, groups, asked = (data.draw(st.integers(low, 3)) for low in (0, 1, 0))

    def of(numbers, *shape):
        count = math.prod(shape)
        drawn = data.draw(st.lists(numbers, min_size=count, max_size=count))
        return torch.tensor(drawn, dtype=torch.float32).view(shape)

    norms = of(st.sampled_from([0.0, 0.5, 1.0, 4.0]), units, groups)
    weights = of(NUMBERS, units, groups)
    query = of(NUMBERS, units, asked) if asked else None
    scales = of(SCALES, groups).double(), of(SCALES, asked).double()
    if surely_covered(scales, norms, weights, query):
        assert not _is_refused(scales, norms, weights, query)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("asked", [0, 1])
def test_units_that_fill_the_envelope_are_seen_to_be_inside_at_once(groups, asked):
    norms = torch.full((5, groups), 4.0)
    share = 1 / (groups + asked)
    scales = (
        torch.full((groups,), 1 / math.sqrt(share)).double(),
        torch.full((asked,), 1.0).double(),
    )
    query = torch.full((5, asked), math.sqrt(share)) if asked else None
    assert surely_covered(scales, norms, torch.full((5, groups), 0.25), query)
    more = torch.full((5, groups), 0.25)
    more[2, 0] = 0.26
    assert not surely_covered(scales, norms, more, query)
    with pytest.raises(PrivacyError, match="leaves the envelope"):
        check_envelope("planted", scales, norms, more, query)


def test_weights_of_another_shape_are_left_to_the_exact_look():
    scales = torch.ones(2).double(), torch.zeros(0).double()
    assert not surely_covered(scales, torch.ones(3, 2), torch.ones(3, 1), None)
    with pytest.raises(PrivacyError, match="weights of shape"):
        check_envelope("planted", scales, torch.ones(3, 2), torch.ones(3, 1), None)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_negative_weight_is_refused_where_the_norm_is_zero_too(groups):
    scales = torch.ones(groups).double(), torch.zeros(0).double()
    norms, weights = torch.zeros(3, groups), torch.full((3, groups), 0.5)
    weights[1, 0] = -0.5
    assert not surely_covered(scales, norms, weights, None)
    assert _is_refused(scales, norms, weights, None)
