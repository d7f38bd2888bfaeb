"""Every model: rows apart, engines exact, text read from left to right."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

from dpsgd.engine import clip_groups
from dpsgd.engine.checks import check_rows_apart
from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_part
from dpsgd.models.images import CNN, MLP, Logistic
from dpsgd.models.resnet import ResNetGN
from dpsgd.models.shape import DataShape
from dpsgd.models.text import LSTM, Recurrent, Transformer
from dpsgd.training.loss import cross_entropy

CONF = Path(__file__).resolve().parents[2] / "conf" / "model"
ENGINES = sorted((CONF.parent / "engine").glob("*.yaml"))
IMAGE = DataShape((1, 8, 8), 3, 0, "classes")
LARGE_IMAGE = replace(IMAGE, inputs=(1, 28, 28))
TOKENS = DataShape((5,), 7, 7, "tokens")
TEXTS = DataShape((5,), 3, 7, "classes")

LSTM_2, LSTM_1 = LSTM("lstm", 6, 2), LSTM("lstm", 6, 1)
TRANSFORMER = Transformer("transformer", 8, 2, 2, 12, 0.0)
CASES = {
    "logistic": (Logistic("logistic"), IMAGE),
    "mlp": (MLP("mlp", [6], "tanh"), IMAGE),
    "cnn": (CNN("cnn", (2, 3), 5, "tanh"), IMAGE),
    "resnet_gn": (ResNetGN("resnet_gn", [4, 8], 2, 2, "tanh"), IMAGE),
    "lstm tokens": (LSTM_2, TOKENS),
    "lstm classes": (LSTM_1, TEXTS),
    "transformer tokens": (TRANSFORMER, TOKENS),
    "transformer classes": (TRANSFORMER, TEXTS),
}


def _rows(shape, rows=4):
    if not shape.vocabulary:
        return torch.randn(rows, *shape.inputs), torch.randint(shape.classes, (rows,))
    inputs = torch.randint(shape.padding, (rows, *shape.inputs))
    inputs[1, 3:] = shape.padding
    if shape.task == "classes":
        return inputs, torch.randint(shape.classes, (rows,))
    targets = torch.randint(shape.classes, (rows, *shape.inputs))
    targets[1, 2:] = -100
    return inputs, targets


def _one_by_one(model, inputs, targets, groups):
    named = dict(model.named_parameters())
    norms, rows = [], []
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(model(x[None]), y[None]).sum()
        found = torch.autograd.grad(loss, list(named.values()))
        rows.append(dict(zip(named, found, strict=True)))
        of = [torch.cat([rows[-1][n].flatten() for n in m]).norm() for m in groups.parameters]
        norms.append(torch.stack(of))
    return torch.stack(norms), rows


@pytest.mark.parametrize("file", ENGINES, ids=lambda p: p.stem)
@pytest.mark.parametrize("name", CASES)
def test_norms_and_sums_equal_autograd_on_one_row_alone(name, file):
    torch.manual_seed(0)
    engine = build_part(yaml.safe_load(file.read_text()), "engine")
    source, shape = CASES[name]
    model = source.build(shape).double()
    inputs, targets = _rows(shape)
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    groups = clip_groups(model, "layer")
    found = engine.capture(model, cross_entropy, inputs, targets, groups, None)
    right, rows = _one_by_one(model, inputs, targets, groups)
    assert torch.allclose(found.norms(), right, rtol=1e-8, atol=1e-12)
    weights = torch.rand(len(inputs), len(groups), dtype=torch.float64)
    for parameter, value in found.weighted_sum(weights).items():
        own = weights[:, groups.index_of(parameter)]
        expected = sum(w * row[parameter] for w, row in zip(own, rows, strict=True))
        assert torch.allclose(value, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("name", CASES)
def test_rows_go_to_logits(name, rows):
    source, shape = CASES[name]
    inputs = _rows(shape)[0][:rows]
    places = shape.inputs if shape.task == "tokens" else ()
    assert source.build(shape)(inputs).shape == (rows, *places, shape.classes)


@pytest.mark.parametrize("name", CASES)
def test_rows_stay_apart(name):
    torch.manual_seed(0)
    source, shape = CASES[name]
    check_rows_apart(source.build(shape), cross_entropy, *_rows(shape))


@pytest.mark.parametrize("source", [LSTM_2, TRANSFORMER], ids=lambda s: s.name)
@pytest.mark.parametrize("place", [1, 3])
def test_later_tokens_change_no_earlier_output(source, place):
    torch.manual_seed(0)
    model = source.build(TOKENS)
    before = _rows(TOKENS)[0]
    after = before.clone()
    after[:, place:] = (after[:, place:] + 1) % TOKENS.vocabulary
    first, second = model(before), model(after)
    assert torch.equal(first[:, :place], second[:, :place])
    assert not torch.isclose(first[:, place:], second[:, place:]).all(dim=(0, 2)).any()


@pytest.mark.parametrize("source", [LSTM_2, TRANSFORMER], ids=lambda s: s.name)
def test_every_earlier_token_matters(source):
    torch.manual_seed(0)
    model = source.build(TOKENS)
    before = torch.zeros(1, 5, dtype=torch.int64)
    for place in range(5):
        after = before.clone()
        after[0, place] = 1
        assert not torch.allclose(model(before)[0, 4], model(after)[0, 4], atol=1e-7)


@pytest.mark.parametrize("source", [LSTM_1, TRANSFORMER], ids=lambda s: s.name)
def test_padding_changes_no_class(source):
    torch.manual_seed(0)
    long = source.build(TEXTS)
    text = torch.tensor([[1, 4, 2]])
    padded = torch.cat([text, torch.full((1, 2), TEXTS.padding)], dim=1)
    assert torch.allclose(long(text), long(padded), atol=1e-6)
    assert torch.isfinite(long(torch.full((1, 5), TEXTS.padding))).all()


def test_the_recurrence_is_that_of_an_lstm():
    torch.manual_seed(0)
    ours, theirs = Recurrent(4), nn.LSTM(4, 4, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input.weight)
        theirs.bias_ih_l0.copy_(ours.input.bias)
        theirs.weight_hh_l0.copy_(ours.recurrent.weight)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(3, 6, 4)
    assert torch.allclose(ours(x), theirs(x)[0], atol=1e-6)


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    model = Transformer("transformer", 8, 1, 2, 12, 0.5).build(TOKENS)
    inputs = _rows(TOKENS)[0]
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


@pytest.mark.parametrize("file", sorted(CONF.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_option_builds_for_its_data_and_names_itself_for_others(file):
    source = build_part(yaml.safe_load(file.read_text()), "model")
    assert source.name == file.stem
    reads_text = source.name in ("lstm", "transformer")
    image = LARGE_IMAGE if source.name == "cnn_strided" else IMAGE
    shape, other = (TOKENS, image) if reads_text else (image, TOKENS)
    model = source.build(shape)
    assert torch.isfinite(model(_rows(shape)[0])).all()
    with pytest.raises(ConfigError, match=source.name):
        source.build(other)


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: ResNetGN("r", [4, 6], 1, 4, "relu"), "channels"),
        (lambda: ResNetGN("r", [4], 0, 4, "relu"), "blocks"),
        (lambda: ResNetGN("r", [4], 1, 0, "relu"), "groups"),
        (lambda: Transformer("t", 10, 1, 4, 8, 0.0), "width"),
        (lambda: Transformer("t", 8, 1, 4, 8, 1.0), "dropout"),
        (lambda: LSTM("l", 8, 0), "layers"),
    ],
)
def test_a_setting_that_builds_nothing_is_refused_by_name(make, key):
    with pytest.raises(ConfigError) as error:
        make()
    assert error.value.key == key


def test_images_too_small_for_the_stages_are_refused():
    with pytest.raises(ConfigError, match="at least 4×4"):
        ResNetGN("r", [4, 4, 4], 1, 4, "relu").build(DataShape((1, 3, 8), 2, 0, "classes"))
