"""Rows moved, chosen or joined inside a model: right, or refused by the module's name."""

import pytest
import torch
from doubtful_cases import DOUBTFUL
from engines import KINDS, engine
from laws import check_equal, curved_loss
from nets import case, floats, lin

from dpsgd.engine import clip_groups
from dpsgd.engine.checks import check_engine, check_rows_apart
from dpsgd.errors import ConfigError, PrivacyError

T = 4


def _refusal(chosen, made, rows):
    """What training on ``rows`` rows would say, after the checks that come before it."""
    inputs, targets = made.rows(7), torch.rand(7, dtype=torch.float64)
    try:
        check_rows_apart(made.model, curved_loss, inputs, targets)
        groups = clip_groups(made.model, "layer")
        check_engine(chosen, made.model, curved_loss, inputs, targets, groups)
        check_equal(chosen, made, rows)
    except (ConfigError, PrivacyError) as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("structure", DOUBTFUL)
def test_a_model_that_moves_rows_is_right_or_refused_by_name(structure, name):
    torch.manual_seed(0)
    made = DOUBTFUL[structure](T)
    for rows in [T, T + 1, 1, [2, 0, 3], 0]:
        refusal = _refusal(engine(name), made, rows)
        assert refusal is None or _is_of_use(refusal)


def _is_of_use(refusal):
    """It names the module, or what to use instead, or says that plain autograd cannot either."""
    return any(word in refusal for word in ("part", "engine=materialised", "autograd fails"))


@pytest.mark.parametrize("name", KINDS)
def test_a_backward_pass_that_mixes_rows_is_taken_on_single_rows(name):
    """Then a row's gradient is its own again, whatever the hook does with a batch."""
    torch.manual_seed(0)

    def does(m, x):
        y = m.part(torch.tanh(x))
        if y.requires_grad:
            y.register_hook(lambda g: g - 5 * g.mean(0, keepdim=True))
        return m.head(y)

    made = case(floats(T, 3), does, part=lin(), head=lin())
    for rows in (T, 1, 5, [1, 1]):
        assert _refusal(engine(name), made, rows) is None
