"""Attention and recurrence: name to (t → Case)."""

import torch
from nets import case, dict_of, floats, lin, param
from torch import nn
from torch.nn import functional

D = 4


def _functional_attention(t):
    def does(m, x):
        q, k, v = m.qkv(x).view(len(x), t, 3, 2, D // 2).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return m.out(mixed.transpose(1, 2).reshape(x.shape))

    return case(floats(t, D), does, qkv=lin(D, 3 * D), out=lin(D, D))


def _attention(does, rows=None, **options):
    def build(t):
        layer = nn.MultiheadAttention(D, 2, batch_first=True, **options)
        return case(
            rows(t) if rows else floats(t, D),
            lambda m, x: m.head(torch.tanh(does(m.attention, x))),
            attention=layer, head=lin(D, 2),
        )  # fmt: skip

    return build


def _mask(t):
    return torch.triu(torch.ones(t, t, dtype=torch.bool), 1)


def _float_mask(t):
    return torch.zeros(t, t, dtype=torch.float64).masked_fill(_mask(t), -2.0)


def _padded(attention, x):
    padding = x["lengths"][:, None] <= torch.arange(x["x"].shape[1])
    return attention(x["x"], x["x"], x["x"], key_padding_mask=padding)[0]


def _with_weights(attention, x):
    values, weights = attention(x, x, x, need_weights=True, average_attn_weights=False)
    return values * (1 + weights.square().sum((1, 3))[..., None])


def _encoder(norm_first):
    def build(t):
        layer = nn.TransformerEncoderLayer(
            D, 2, 5, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        return case(floats(t, D), lambda m, x: m.layer(x, src_mask=_float_mask(t)), layer=layer)

    return build


def _decoder(t):
    layer = nn.TransformerDecoderLayer(D, 2, 5, dropout=0.0, batch_first=True)
    return case(
        dict_of(x=floats(t, D), memory=floats(2, D)),
        lambda m, x: m.layer(x["x"], x["memory"], tgt_mask=_float_mask(t)), layer=layer,
    )  # fmt: skip


def _recurrent(kind, does=None, **options):
    def build(t):
        layer = kind(2, 3, batch_first=True, **options)
        width = layer.proj_size or 3
        width *= 2 if layer.bidirectional else 1
        return case(
            floats(t, 2),
            does or (lambda m, x: m.head(torch.tanh(m.layer(x)[0]))),
            layer=layer, head=lin(width, 2),
        )  # fmt: skip

    return build


def _cells(kind, lstm=False):
    def does(m, x):
        h = x.new_zeros(len(x), 3)
        state = (h, h) if lstm else h
        for step in range(x.shape[1]):
            state = m.cell(x[:, step], state)
        return m.head(state[0] if lstm else state)

    return lambda t: case(floats(t, 2), does, cell=kind(2, 3), head=lin(3, 2))


def _learned_start(m, x):
    start = m.start.expand(1, len(x), 3).contiguous()
    return m.head(m.layer(x, start)[0])


SEQUENCES = {
    "functional attention": _functional_attention,
    "attention": _attention(lambda a, x: a(x, x, x, need_weights=False)[0]),
    "attention and its weights": _attention(_with_weights),
    "attention, weights unused": _attention(lambda a, x: a(x, x, x)[0]),
    "attention, causal": _attention(
        lambda a, x: a(x, x, x, attn_mask=_mask(x.shape[1]), need_weights=False)[0]
    ),
    "attention, causal, weights": _attention(
        lambda a, x: a(x, x, x, attn_mask=_mask(x.shape[1]))[0]
    ),
    "attention, mask of floats": _attention(
        lambda a, x: a(x, x, x, attn_mask=_float_mask(x.shape[1]), need_weights=False)[0]
    ),
    "attention, mask of each head": _attention(
        lambda a, x: a(x, x, x, attn_mask=_mask(x.shape[1]).repeat(2 * len(x), 1, 1))[0]
    ),
    "attention, padding": _attention(
        _padded,
        lambda t: dict_of(x=floats(t, D), lengths=lambda n: torch.randint(1, t + 1, (n,))),
    ),
    "attention, no bias": _attention(lambda a, x: a(x, x, x)[0], bias=False),
    "attention, bias of keys": _attention(
        lambda a, x: a(x, x, x)[0], add_bias_kv=True, add_zero_attn=True
    ),
    "attention, across": _attention(
        lambda a, x: a(x["x"], x["memory"], x["memory"], need_weights=False)[0],
        lambda t: dict_of(x=floats(t, D), memory=floats(2, 3)),
        kdim=3,
        vdim=3,
    ),
    "attention, keys as keywords": _attention(
        lambda a, x: a(query=x, key=x.flip(1), value=x.tanh())[0]
    ),
    "encoder layer": _encoder(False),
    "encoder layer, norm first": _encoder(True),
    "decoder layer": _decoder,
    "LSTM": _recurrent(nn.LSTM),
    "LSTM, two layers": _recurrent(nn.LSTM, num_layers=2),
    "LSTM, both ways": _recurrent(nn.LSTM, bidirectional=True),
    "LSTM, no bias": _recurrent(nn.LSTM, bias=False),
    "LSTM, projected": _recurrent(nn.LSTM, proj_size=2),
    "LSTM, last state": _recurrent(nn.LSTM, lambda m, x: m.head(m.layer(x)[1][0][-1])),
    "LSTM, last cell": _recurrent(nn.LSTM, lambda m, x: m.head(m.layer(x)[1][1][-1])),
    "GRU": _recurrent(nn.GRU),
    "GRU, two layers both ways": _recurrent(nn.GRU, num_layers=2, bidirectional=True),
    "GRU, last state": _recurrent(nn.GRU, lambda m, x: m.head(m.layer(x)[1][-1])),
    "GRU, called twice": _recurrent(
        nn.GRU, lambda m, x: m.head(m.layer(torch.tanh(m.layer(x)[0][..., :2]))[0])
    ),
    "RNN": _recurrent(nn.RNN),
    "RNN, relu": _recurrent(nn.RNN, nonlinearity="relu", num_layers=2),
    "GRU, learned start": lambda t: case(
        floats(t, 2),
        _learned_start,
        layer=nn.GRU(2, 3, batch_first=True),
        start=param(1, 1, 3),
        head=lin(3, 2),
    ),
    "LSTM cells": _cells(nn.LSTMCell, lstm=True),
    "GRU cells": _cells(nn.GRUCell),
    "RNN cells": _cells(nn.RNNCell),
}
