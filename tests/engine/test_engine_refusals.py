"""Layers that cannot be right are refused by name before training, with what to use instead."""

import pytest
import torch
from engines import KINDS, engine
from laws import check_equal, curved_loss
from nets import case, dict_of, floats, ids, lin, tuple_of
from torch import nn

from dpsgd.engine.checks import check_model, check_rows_apart
from dpsgd.errors import ConfigError


class Deep(nn.Module):
    """The layer in question two modules down."""

    def __init__(self, part, does=None):
        super().__init__()
        self.block = nn.ModuleDict({"part": part})
        self.head = nn.LazyLinear(2)
        self.does = does or (lambda part, x: part(x))

    def forward(self, x):
        return self.head(self.does(self.block["part"], x).flatten(1))


def _deep(layer, rows):
    model = Deep(layer).double()
    model(rows(2))
    return model


PART = r"block\.part.*"
BY_FREQUENCY, OF_A_LENGTH, SPARSE = (
    {"scale_grad_by_freq": True},
    {"max_norm": 1.0},
    {"sparse": True},
)
REFUSED = {
    "batch norm": (nn.BatchNorm1d(3), floats(3, 4), "GroupNorm"),
    "batch norm without state": (
        nn.BatchNorm2d(3, track_running_stats=False),
        floats(3, 4, 4),
        "GroupNorm",
    ),
    "instance norm with state": (
        nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        floats(3, 4),
        "(track_running_stats|GroupNorm)",
    ),
    "embedding by frequency": (nn.Embedding(5, 3, **BY_FREQUENCY), ids(5, 4), "by_freq"),
    "embedding of a length": (nn.Embedding(5, 3, **OF_A_LENGTH), ids(5, 4), "max_norm"),
    "sparse embedding": (nn.Embedding(5, 3, **SPARSE), ids(5, 4), "sparse"),
    "bags by frequency": (nn.EmbeddingBag(5, 3, **BY_FREQUENCY), ids(5, 4), "by_freq"),
    "bags of a length": (nn.EmbeddingBag(5, 3, **OF_A_LENGTH), ids(5, 4), "max_norm"),
    "sparse bags": (nn.EmbeddingBag(5, 3, **SPARSE), ids(5, 4), "sparse"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_layer_that_mixes_rows_or_changes_weights_is_refused_by_name(kind):
    layer, rows, message = REFUSED[kind]
    model = _deep(layer, rows)
    with pytest.raises(ConfigError, match=PART + message) as error:
        check_rows_apart(model, curved_loss, rows(8), torch.rand(8, dtype=torch.float64))
    assert error.value.key == "model"


def test_batch_norm_over_processes_is_refused_without_a_process():
    model = nn.ModuleDict({"block": nn.ModuleDict({"part": nn.SyncBatchNorm(3)})})
    with pytest.raises(ConfigError, match=PART + "GroupNorm"):
        check_model(model)


MIXING = {
    "LSTM over the batch": (nn.LSTM(3, 3), lambda p, x: p(x)[0]),
    "GRU over the batch": (nn.GRU(3, 3, 2), lambda p, x: p(x)[0]),
    "attention over the batch": (nn.MultiheadAttention(3, 1), lambda p, x: p(x, x, x)[0]),
    "encoder over the batch": (
        nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0), lambda p, x: p(x)
    ),
}  # fmt: skip


@pytest.mark.parametrize("rows", [4, 8])
@pytest.mark.parametrize("kind", MIXING)
def test_a_layer_that_takes_rows_for_time_is_refused_by_name(kind, rows):
    torch.manual_seed(0)
    layer, does = MIXING[kind]
    model = Deep(layer, does).double()
    make = floats(4, 3)
    model(make(2))
    with pytest.raises(ConfigError, match=r"block\.part"):
        check_rows_apart(model, curved_loss, make(rows), torch.rand(rows, dtype=torch.float64))


APART = {
    "a dict": lambda: case(
        dict_of(a=floats(3), b=ids(5, 2)),
        lambda m, x: m.part(x["a"]) + m.words(x["b"]).sum(1),
        part=lin(), words=nn.Embedding(5, 3),
    ),
    "a tuple to a dict": lambda: case(
        tuple_of(floats(3), floats(4, 3)),
        lambda m, x: {"one": m.part(x[0]), "all": m.part(x[1])}, part=lin(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", APART)
def test_rows_of_several_tensors_can_stay_apart(kind):
    made = APART[kind]()
    check_rows_apart(made.model, curved_loss, made.rows(8), torch.rand(8, dtype=torch.float64))


def test_rows_of_several_tensors_can_mix():
    made = case(
        dict_of(a=floats(3), b=floats(3)),
        lambda m, x: m.part(x["a"] - x["b"].mean(0)), part=lin(),
    )  # fmt: skip
    with pytest.raises(ConfigError, match="model="):
        check_rows_apart(made.model, curved_loss, made.rows(8), torch.rand(8, dtype=torch.float64))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "layer", [nn.TransformerEncoderLayer(4, 2, 4, dropout=0.3, batch_first=True),
              nn.LSTM(4, 4, 2, batch_first=True, dropout=0.3)],
    ids=["encoder", "LSTM"],
)  # fmt: skip
def test_a_model_that_is_evaluated_has_the_gradient_of_evaluation(layer, name, training):
    """In evaluation torch has faster paths for models of which nothing needs a gradient."""
    torch.manual_seed(0)
    made = case(
        floats(3, 4),
        lambda m, x: out[0] if isinstance(out := m.part(m.first(x)), tuple) else out,
        first=lin(4, 4), part=layer,
    )  # fmt: skip
    if training:
        for module in made.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(module, nn.LSTM | nn.MultiheadAttention):
                module.dropout = 0.0
    made.model.train(training)
    check_equal(engine(name), made, 4)
    assert made.model.training == training
