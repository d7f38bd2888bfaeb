"""What an engine saw before changes nothing: it looks at the model that it is given now."""

import pytest
import torch
from engines import KINDS, engine
from laws import Case, alone, check_equal, curved_loss
from nets import WIDTH, case, floats, ids, lin, param
from torch import nn
from torch.nn import functional

from dpsgd.engine import clip_groups
from dpsgd.errors import PrivacyError

W = WIDTH


def _refusal(train):
    try:
        train()
    except PrivacyError as error:
        return str(error)
    return None


def _model():
    return case(
        ids(5, 3),
        lambda m, x: m.head(torch.tanh(m.words(x) + m.pos(torch.arange(x.shape[1])))),
        words=nn.Embedding(5, W), pos=nn.Embedding(6, W), head=lin(),
    )  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_sequences_may_have_another_length_in_every_batch(name):
    torch.manual_seed(0)
    made, chosen = _model(), engine(name)
    for length, sizes in [(3, 4), (5, 5), (1, 3), (6, [2, 0, 1]), (2, 0), (2, 2), (4, 1)]:
        check_equal(chosen, Case(made.model, ids(5, length)), sizes)


@pytest.mark.parametrize("name", KINDS)
def test_layers_may_be_frozen_and_thawed_between_batches(name):
    torch.manual_seed(0)
    made, chosen = _model(), engine(name)
    for frozen in ["pos.weight", "head.bias", "words.weight", ""]:
        for parameter, value in made.model.named_parameters():
            value.requires_grad_(parameter != frozen)
        check_equal(chosen, made, 4, "tensor")


@pytest.mark.parametrize("name", KINDS)
def test_one_engine_serves_several_models_in_turn(name):
    torch.manual_seed(0)
    chosen = engine(name)
    made = [
        case(floats(W), lambda m, x: m.a(x), a=lin()),
        case(floats(W), lambda m, x: m.a(m.a(x)), a=lin()),
        case(floats(W), lambda m, x: m.a(x), a=lin(), idle=lin()),
    ]
    for _ in range(2):
        for one in made:
            check_equal(chosen, one, 3)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_may_be_tied_or_untied_after_a_batch(name):
    torch.manual_seed(0)
    made = case(floats(4, W), lambda m, x: m.b(torch.tanh(m.a(x))), a=lin(), b=lin())
    chosen = engine(name)
    check_equal(chosen, made, 3)
    made.model.b.weight = made.model.a.weight
    check_equal(chosen, made, 3)
    made.model.b.weight = nn.Parameter(made.model.a.weight.detach().clone())
    check_equal(chosen, made, 3)


@pytest.mark.parametrize("name", KINDS)
def test_capture_leaves_the_model_and_the_random_stream_as_they_were(name):
    torch.manual_seed(0)
    made = case(
        floats(4, W),
        lambda m, x: m.head(m.gru(m.a(x))[0] * m.scale.weight[0]),
        a=lin(), gru=nn.GRU(W, W, batch_first=True), scale=nn.Embedding(1, W), head=lin(),
    )  # fmt: skip
    model = made.model
    made.model.head.bias.requires_grad_(False)
    state = {n: v.clone() for n, v in model.state_dict().items()}
    identities = {n: id(p) for n, p in model.named_parameters()}
    forwards = [m.__dict__.get("forward") for m in model.modules()]
    random = torch.get_rng_state()
    inputs = made.rows(4)
    before = inputs.clone()
    torch.set_rng_state(random)
    case_of = Case(model, lambda n: inputs)
    check_equal(engine(name), case_of, 4)
    assert torch.equal(inputs, before)
    assert all(torch.equal(v, state[n]) for n, v in model.state_dict().items())
    assert identities == {n: id(p) for n, p in model.named_parameters()}
    assert forwards == [m.__dict__.get("forward") for m in model.modules()]
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == ["head.bias"]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_taken_where_torch_takes_none(name):
    torch.manual_seed(0)
    made = case(
        floats(4, W), lambda m, x: m.b(m.a(x)[0] * m.scale), a=nn.GRU(W, W, batch_first=True),
        b=lin(), scale=param(W),
    )  # fmt: skip
    inputs, targets = made.rows(4), torch.rand(4, dtype=torch.float64)
    groups = clip_groups(made.model, "tensor")
    right = alone(made.model, curved_loss, inputs, targets, groups, None)
    with torch.no_grad():
        found = engine(name).capture(made.model, curved_loss, inputs, targets, groups, None)
    torch.testing.assert_close(found.norms(), right.norms)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_without_dropout_draws_nothing(name):
    torch.manual_seed(0)
    made = _model()
    inputs, targets = made.rows(4), torch.rand(4, dtype=torch.float64)
    groups = clip_groups(made.model, "all")
    before = torch.get_rng_state()
    engine(name).capture(made.model, curved_loss, inputs, targets, groups, None)
    assert torch.equal(torch.get_rng_state(), before)


FIRST = {
    "rows": lambda made: made.rows(6),
    "one row": lambda made: made.rows(1),
    "equal rows": lambda made: made.rows(1).expand(4, 4, W).clone(),
    "zeros": lambda made: torch.zeros_like(made.rows(4)),
    "two rows": lambda made: made.rows(2),
    "a row that is not finite": lambda made: (
        made.rows(4) / torch.tensor([0.0, 1, 1, 1])[:, None, None]
    ),
    "nothing": lambda made: made.rows(0),
}
MODELS = {
    "rows in the other order": lambda m, x: m.b(torch.tanh(m.a(x.flip(0)).flip(0))),
    "called, and its weight": lambda m, x: m.b(functional.linear(m.a(x), m.a.weight)),
    "its weight, where negative": lambda m, x: m.b(
        m.a(x) + functional.linear(x.neg().relu(), m.a.weight)
    ),
    "its weight, where large": lambda m, x: m.b(
        m.a(x) + functional.linear((x - 1).relu(), m.a.weight)
    ),
    "row after row": lambda m, x: m.b(torch.stack([m.a(row) for row in x])) if len(x) else m.b(x),
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("does", MODELS)
@pytest.mark.parametrize("name", KINDS)
def test_a_first_batch_that_shows_little_misleads_nobody(name, does, first):
    torch.manual_seed(0)
    made = case(floats(4, W), MODELS[does], a=lin(), b=lin())
    chosen, inputs = engine(name), FIRST[first](made)
    groups = clip_groups(made.model, "layer")
    targets = torch.rand(len(inputs), dtype=torch.float64)

    def train():
        chosen.capture(made.model, curved_loss, inputs, targets, groups, None)
        for rows in (5, 4, [2, 1]):
            check_equal(chosen, made, rows)

    assert _refusal(train) is None or "'a'" in _refusal(train)


@pytest.mark.parametrize("name", KINDS)
def test_a_part_may_be_switched_on_later(name):
    torch.manual_seed(0)
    made = case(
        floats(4, W), lambda m, x: m.b(m.a(x) if m.stage else x) * m.late(x) ** m.stage,
        a=lin(), b=lin(), late=lin(),
    )  # fmt: skip
    made.model.stage = 0
    chosen = engine(name)
    check_equal(chosen, made, 3)
    made.model.stage = 1
    refusal = _refusal(lambda: check_equal(chosen, made, 3))
    assert refusal is None or "'a" in refusal or "'late" in refusal


@pytest.mark.parametrize("name", KINDS)
def test_another_loss_may_read_other_outputs(name):
    torch.manual_seed(0)
    made = case(floats(4, W), lambda m, x: (m.a(x), m.b(x)), a=lin(), b=lin())
    groups, chosen = clip_groups(made.model, "layer"), engine(name)
    inputs, targets = made.rows(4), torch.rand(4, dtype=torch.float64)
    for place in (0, 1, 0):

        def loss(outputs, targets, place=place):
            return curved_loss(outputs[place], targets)

        right = alone(made.model, loss, inputs, targets, groups, None)
        found = chosen.capture(made.model, loss, inputs, targets, groups, None)
        torch.testing.assert_close(found.norms(), right.norms)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_that_fails_is_left_as_it_was(name):
    def breaks(m, x):
        y = m.gru(m.a(x))[0]
        if len(x) == 7:
            raise ValueError("seven")
        return y

    made = case(floats(4, W), breaks, a=lin(), gru=nn.GRU(W, W, batch_first=True))
    check_equal(engine(name), made, 2)
    identities = {n: id(p) for n, p in made.model.named_parameters()}
    with pytest.raises(ValueError, match="seven"):
        check_equal(engine(name), made, 7)
    assert identities == {n: id(p) for n, p in made.model.named_parameters()}
    assert all(p.requires_grad for p in made.model.parameters())
    assert "forward" not in made.model.gru.__dict__
    check_equal(engine(name), made, 2)
