"""Parameters used twice, tied, or for all rows at once: name to (t → Case)."""

import torch
from nets import WIDTH, case, dict_of, floats, ids, lin, param
from torch import nn

W = WIDTH


def _tied(t):
    made = case(
        floats(t, W), lambda m, x: m.second(torch.tanh(m.first(x))), first=lin(), second=lin()
    )
    made.model.second.weight = made.model.first.weight
    return made


def _tied_biases(t):
    made = _tied(t)
    made.model.second.bias = made.model.first.bias
    return made


def _tied_across_kinds(t):
    made = case(
        floats(t, W),
        lambda m, x: m.scale * m.norm(m.scale + x),
        scale=param(W),
        norm=nn.LayerNorm(W),
    )
    made.model.norm.weight = made.model.scale
    return made


def _tied_convolutions(t):
    made = case(
        floats(2, t),
        lambda m, x: m.second(torch.tanh(m.first(x))),
        first=nn.Conv1d(2, 2, 3, padding=1),
        second=nn.Conv1d(2, 2, 3, padding=2, dilation=2),
    )
    made.model.second.weight = made.model.first.weight
    return made


def _tied_head(t):
    made = case(
        ids(5, t),
        lambda m, x: m.head(torch.tanh(m.mix(m.words(x)))),
        words=nn.Embedding(5, W, padding_idx=1), mix=lin(), head=lin(W, 5),
    )  # fmt: skip
    made.model.head.weight = made.model.words.weight
    return made


def _two_names(t):
    made = case(floats(W), lambda m, x: m.other(torch.tanh(m.one(x))), one=lin())
    made.model.other = made.model.one
    return made


def _pos(places):
    """Positions that are the same for every row, looked up once for all of them."""

    def build(t):
        return case(
            ids(5, t),
            lambda m, x: m.head(torch.tanh(m.words(x) + places(m, x))),
            words=nn.Embedding(5, W), pos=nn.Embedding(6, W), head=lin(),
        )  # fmt: skip

    return build


def _prototypes(t):
    return case(
        floats(W), lambda m, x: x @ torch.tanh(m.code(m.kept)).T, code=lin(), kept=torch.randn(t, W)
    )


SHARING = {
    # used twice
    "linear twice": lambda t: case(floats(t, W), lambda m, x: m.a(torch.tanh(m.a(x))), a=lin()),
    "linear twice, at two lengths": lambda t: case(
        floats(t, W), lambda m, x: m.a(torch.tanh(m.a(x)).sum(1)), a=lin()
    ),
    "embedding twice": lambda t: case(
        dict_of(a=ids(5, t), b=ids(5, 2)),
        lambda m, x: m.head(torch.tanh(m.words(x["a"]).sum(1) * m.words(x["b"]).sum(1))),
        words=nn.Embedding(5, W, padding_idx=0),
        head=lin(),
    ),
    "convolution twice": lambda t: case(
        floats(2, t),
        lambda m, x: m.a(torch.tanh(m.a(x)[..., :1].expand_as(x))),
        a=nn.Conv1d(2, 2, 3, padding=1, groups=2),
    ),
    "norm twice": lambda t: case(
        floats(t, W), lambda m, x: m.norm(m.a(m.norm(x))), a=lin(), norm=nn.LayerNorm(W)
    ),
    "tied": _tied,
    "tied biases": _tied_biases,
    "tied across kinds": _tied_across_kinds,
    "tied convolutions": _tied_convolutions,
    "embedding tied to the head": _tied_head,
    "two names": _two_names,
    # the same for every row
    "positions [T]": _pos(lambda m, x: m.pos(torch.arange(x.shape[1]))),
    "positions [1, T]": _pos(lambda m, x: m.pos(torch.arange(x.shape[1])[None])),
    "positions [B, T]": _pos(lambda m, x: m.pos(torch.arange(x.shape[1]).expand_as(x))),
    "positions [T], reversed too": _pos(
        lambda m, x: m.pos(torch.arange(x.shape[1])) * m.pos(torch.arange(x.shape[1]).flip(0))
    ),
    "positions as parameters": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(x + m.pos)), pos=param(t, W), head=lin()
    ),
    "positions as parameters [1, T]": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(x + m.pos)), pos=param(1, t, W), head=lin()
    ),
    "class token": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(torch.tanh(torch.cat([m.token.expand(len(x), 1, W), x], 1))),
        token=param(1, 1, W),
        head=lin(),
    ),
    "linear of constants": _prototypes,
    "linear of rows and of constants": lambda t: case(
        floats(t, W), lambda m, x: m.a(torch.tanh(x)) * m.a(m.kept), a=lin(), kept=torch.randn(t, W)
    ),
    "embedding of rows and of positions": lambda t: case(
        ids(5, t),
        lambda m, x: m.head(torch.tanh(m.words(x) + m.words(torch.arange(x.shape[1])))),
        words=nn.Embedding(5, W, padding_idx=1),
        head=lin(),
    ),
    "norm of constants": lambda t: case(
        floats(W), lambda m, x: x @ m.norm(m.kept).T, norm=nn.LayerNorm(W), kept=torch.randn(t, W)
    ),
}
