"""Every layer, every option: norms and sums equal plain autograd on one unit alone."""

from unittest.mock import patch

import pytest
import torch
from engines import KINDS, engine
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from laws import check_equal
from layer_cases import LAYERS

from dpsgd.engine import convolution, settled

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

PHASES = [Phase.generate, Phase.shrink]
# The last user is so much smaller than the first that padding both to one length is a waste.
SIZES = st.sampled_from([0, 1, 5, [2, 0, 3, 1], [1, 1], [0, 0], [4], [1, 6, 0], [7, 0, 0, 0, 1, 0]])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", LAYERS)
@settings(max_examples=30, deadline=None, derandomize=True, phases=PHASES)
@given(data=st.data())
def test_norms_and_sums_of_a_layer_equal_autograd_on_one_unit_alone(kind, name, data):
    torch.manual_seed(0)
    case = LAYERS[kind](data.draw)
    frozen = data.draw(st.sampled_from(["", "", "weight", "bias"]))
    kept = [p for n, p in case.model.named_parameters() if not frozen or not n.endswith(frozen)]
    if kept:
        case.model.requires_grad_(False)
        for parameter in kept:
            parameter.requires_grad_(True)
    granularity = data.draw(st.sampled_from(["all", "layer", "tensor"]))
    combine = data.draw(st.sampled_from(["sum", "average"]))
    check_equal(engine(name), case, data.draw(SIZES), granularity, combine)


@pytest.mark.parametrize("sizes", [7, [7, 0, 0, 0, 1, 0], [2, 0, 3, 1]], ids=str)
@pytest.mark.parametrize("kind", ["Linear", "Conv1d", "Conv2d", "ConvTranspose2d", "Embedding"])
@settings(max_examples=15, deadline=None, derandomize=True, phases=PHASES)
@given(data=st.data())
def test_gradients_taken_a_few_at_a_time_are_the_same(kind, sizes, data):
    torch.manual_seed(0)
    case = LAYERS[kind](data.draw)
    with patch.object(settled, "BLOCK", 1), patch.object(convolution, "PATCHES", 1):
        check_equal(engine("bookkeeping"), case, sizes)
