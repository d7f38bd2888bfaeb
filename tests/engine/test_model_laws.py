"""However parameters are shared, called or left alone: the gradient of one unit alone."""

import pytest
import torch
from calling_cases import CALLING
from engines import KINDS, engine
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from laws import check_equal
from outside_cases import OUTSIDE
from sequence_cases import SEQUENCES
from sharing_cases import SHARING

PHASES = [Phase.generate, Phase.shrink]
CASES = SHARING | OUTSIDE | SEQUENCES | CALLING
LENGTHS = st.sampled_from([2, 1, 5])
"""Also the numbers of rows below, so that a length can be taken for the number of rows."""
SIZES = st.sampled_from([5, 2, 1, 0, [2, 0, 3], [1, 1], [0, 0], [5], [0, 2, 0], [1] * 5])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("structure", CASES)
@settings(max_examples=7, deadline=None, derandomize=True, phases=PHASES)
@given(
    length=LENGTHS,
    sizes=SIZES,
    granularity=st.sampled_from(["layer", "all", "tensor"]),
    combine=st.sampled_from(["sum", "average"]),
)
def test_norms_and_sums_of_a_model_equal_autograd_on_one_unit_alone(
    structure, name, length, sizes, granularity, combine
):
    torch.manual_seed(0)
    check_equal(engine(name), CASES[structure](length), sizes, granularity, combine)
