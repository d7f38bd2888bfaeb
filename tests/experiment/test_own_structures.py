"""A loop of one's own may pass dicts, and a model may return several outputs."""

import pytest
import torch
from torch import nn

from dpsgd import Budget, PrivateTraining, part

ROWS = 200


class Heads(nn.Module):
    """Words and positions, an encoder layer with dropout, two heads of different size."""

    def __init__(self, dropout):
        super().__init__()
        self.words = nn.Embedding(9, 8)
        self.places = nn.Parameter(torch.randn(1, 5, 8))
        self.encoder = nn.TransformerEncoderLayer(8, 2, 12, dropout, batch_first=True)
        self.kind, self.tone = nn.Linear(8, 4), nn.Linear(8, 2)

    def forward(self, batch):
        hidden = self.words(batch["ids"]) + self.places
        hidden = self.encoder(hidden, src_key_padding_mask=batch["padding"]).mean(1)
        return {"kind": self.kind(hidden), "tone": self.tone(hidden)}


def _loss(outputs, targets):
    each = nn.functional.cross_entropy
    return sum(each(outputs[k], targets[k], reduction="none") for k in ("kind", "tone"))


def _data():
    ids = torch.randint(9, (ROWS, 5))
    padding = torch.arange(5) >= torch.randint(2, 6, (ROWS, 1))
    return (
        {"ids": ids, "padding": padding},
        {"kind": torch.randint(4, (ROWS,)), "tone": torch.randint(2, (ROWS,))},
    )


def _take(batch, rows):
    return {name: values[rows] for name, values in batch.items()}


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_dicts_go_in_and_come_out(dropout):
    torch.manual_seed(0)
    inputs, targets = _data()
    model = Heads(dropout)
    budget = Budget(epsilon=3.0, delta=1e-3, steps=3, batch=20)
    private = PrivateTraining(model, part("clip/per_layer", norm=1.0), budget, ROWS, loss=_loss)
    for rows in private:
        losses = private.step(_take(inputs, rows), _take(targets, rows))
        assert losses.shape == rows.shape
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())
