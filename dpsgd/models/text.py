"""Models that read token ids ``[n, T]`` from left to right.

For task ``tokens`` they return ``[n, T, classes]``, and the output at a place depends on it and the
places before it only; for task ``classes`` the mean over the places that are not padding goes
through one linear layer to ``[n, classes]``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.errors import ConfigError
from dpsgd.models.shape import DataShape

EMBEDDING_STD = 0.02


@dataclass(frozen=True)
class LSTM:
    """Embedding, then LSTM layers (Hochreiter & Schmidhuber, 1997) of one width.

    The recurrence is made of ``nn.Linear``, so that every engine sees each use of each weight.
    """

    name: str
    width: int
    layers: int

    def __post_init__(self) -> None:
        _at_least_one(self, "width", "layers")

    def build(self, shape: DataShape) -> nn.Module:
        """Return the model; raises ConfigError for inputs that are not token ids."""
        shape.need_tokens(self.name)
        body = nn.Sequential(*(Recurrent(self.width) for _ in range(self.layers)))
        return Reader(shape, self.width, body)


@dataclass(frozen=True)
class Transformer:
    """Causal pre-norm transformer with learned positions (Radford et al., 2019).

    Attributes:
        width: of the embeddings, divided among the heads.
        layers: number of blocks.
        heads: of the attention.
        hidden: width of the feed-forward part.
        dropout: share of values set to zero in training, after each half of a block.

    """

    name: str
    width: int
    layers: int
    heads: int
    hidden: int
    dropout: float

    def __post_init__(self) -> None:
        _at_least_one(self, "width", "layers", "heads", "hidden")
        if self.width % self.heads:
            raise ConfigError("width", self.width, f"must be a multiple of heads={self.heads}")
        if not 0 <= self.dropout < 1:
            raise ConfigError("dropout", self.dropout, "must be at least 0 and below 1")

    def build(self, shape: DataShape) -> nn.Module:
        """Return the model; raises ConfigError for inputs that are not token ids."""
        shape.need_tokens(self.name)
        body = nn.Sequential(
            Positions(shape.inputs[0], self.width),
            *(Block(self.width, self.heads, self.hidden, self.dropout) for _ in range(self.layers)),
            nn.LayerNorm(self.width),
        )
        return Reader(shape, self.width, body)


class Reader(nn.Module):
    """Embedding, a body that maps ``[n, T, width]`` to the same shape, and a linear head."""

    def __init__(self, shape: DataShape, width: int, body: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)
        self.body = body
        self.head = nn.Linear(width, shape.classes)
        self._padding, self._each_token = shape.padding, shape.task == "tokens"

    def forward(self, tokens: Tensor) -> Tensor:
        """Map ids ``[n, T]`` to logits."""
        hidden = self.body(self.embedding(tokens))
        if not self._each_token:
            known = (tokens != self._padding).unsqueeze(-1).to(hidden.dtype)
            # A row of padding alone reads as zeros.
            hidden = (hidden * known).sum(1) / known.sum(1).clamp_min(1)
        return self.head(hidden)


class Recurrent(nn.Module):
    """One LSTM layer, ``[n, T, width]`` to the same shape, from a state of zeros.

    i, f, g, o = W·x_t + U·h_{t−1} + b; c_t = σ(f)·c_{t−1} + σ(i)·tanh(g); h_t = σ(o)·tanh(c_t).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input = nn.Linear(width, 4 * width)
        self.recurrent = nn.Linear(width, 4 * width, bias=False)
        with torch.no_grad():
            # A forget gate that starts open (Jozefowicz et al., ICML 2015).
            self.input.bias[width : 2 * width].fill_(1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[n, T, width]`` to the hidden states."""
        projected = self.input(x)
        hidden = cell = torch.zeros_like(x[:, 0])
        outputs: list[Tensor] = []
        for t in range(x.shape[1]):
            i, f, g, o = (projected[:, t] + self.recurrent(hidden)).chunk(4, dim=-1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


class Positions(nn.Module):
    """Adds a learned vector for each of ``context`` places."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(context, width)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)

    def forward(self, x: Tensor) -> Tensor:
        """Add each place's vector to ``[n, T, width]``."""
        # Every row looks its places up for itself: a row then has a gradient of its own here.
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        return x + self.embedding(places)


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.LayerNorm(width), CausalAttention(width, heads), _dropout(dropout)
        )
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width),
            _dropout(dropout),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[n, T, width]`` to the same shape."""
        x = x + self.attention(x)
        return x + self.feed_forward(x)


class CausalAttention(nn.Module):
    """Scaled dot products with the places up to one's own (Vaswani et al., NeurIPS 2017, eq. 1)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[n, T, width]`` to the same shape."""
        rows, places, width = x.shape
        split = self.qkv(x).view(rows, places, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
        attended = torch.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ v
        return self.out(attended.transpose(1, 2).reshape(rows, places, width))


def _dropout(share: float) -> nn.Module:
    return nn.Dropout(share) if share else nn.Identity()


def _at_least_one(source: LSTM | Transformer, *keys: str) -> None:
    for key in keys:
        if getattr(source, key) < 1:
            raise ConfigError(key, getattr(source, key), "must be at least 1")
