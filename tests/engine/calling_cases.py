"""In-place operations, keywords, containers, several inputs and outputs: name to (t → Case)."""

import torch
from nets import WIDTH, case, dict_of, floats, ids, lin, param, tuple_of
from torch import nn
from torch.nn import functional

W = WIDTH


def _skip(m, x):
    h = torch.tanh(m.a(x))
    y = m.b(h)
    y += h
    return m.head(y)


def _in_place_on_a_view(m, x):
    h = m.a(x)
    h[:, :1].mul_(2.0)
    return m.head(torch.tanh(h))


def _in_place_on_a_half(m, x):
    first, second = m.a(x).chunk(2, dim=-1)
    return m.head(torch.tanh(first * 1.0) + second.clone().sigmoid_())


def _written_into(m, x):
    h = torch.zeros_like(x)
    h[:, :, :2] = m.a(x)
    return m.head(torch.tanh(h))


def _no_grad(m, x):
    with torch.no_grad():
        h = m.a(x)
    return m.head(torch.tanh(m.a(x) + h))


def _grown(t):
    up = nn.ConvTranspose1d(2, 2, 3, stride=2, padding=1)
    return case(floats(2, t), lambda m, x: m.up(torch.tanh(x), output_size=[2 * t]), up=up)


CALLING = {
    "relu in place": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(m.act(m.a(x))),
        a=lin(),
        act=nn.ReLU(inplace=True),
        head=lin(),
    ),
    "convolution, then relu in place": lambda t: case(
        floats(2, t),
        lambda m, x: m.b(m.act(m.a(x))),
        a=nn.Conv1d(2, 2, 1),
        act=nn.ReLU(inplace=True),
        b=nn.Conv1d(2, 2, 1),
    ),
    "norm, then relu in place": lambda t: case(
        floats(t, W), lambda m, x: m.head(functional.relu_(m.a(x))), a=nn.LayerNorm(W), head=lin()
    ),
    "embedding, scaled in place": lambda t: case(
        ids(5, t), lambda m, x: m.head(m.a(x).mul_(1.5)), a=nn.Embedding(5, W), head=lin()
    ),
    "vector, then relu in place": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(functional.relu_(x * m.scale)),
        scale=param(W),
        head=lin(),
    ),
    "recurrence, then relu in place": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(functional.relu_(m.a(x)[0])),
        a=nn.GRU(W, W, batch_first=True),
        head=lin(),
    ),
    "skip in place": lambda t: case(floats(t, W), _skip, a=lin(), b=lin(), head=lin()),
    "in place on a view": lambda t: case(floats(t, W), _in_place_on_a_view, a=lin(), head=lin()),
    "in place on a half": lambda t: case(
        floats(t, W), _in_place_on_a_half, a=lin(W, 2 * W), head=lin()
    ),
    "written into zeros": lambda t: case(floats(t, W), _written_into, a=lin(W, 2), head=lin()),
    "dropout of nothing": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(m.drop(m.a(x))),
        a=lin(),
        drop=nn.Dropout(0.0, inplace=True),
        head=lin(),
    ),
    "by keyword": lambda t: case(
        floats(t, W), lambda m, x: m.head(input=torch.tanh(m.a(input=x))), a=lin(), head=lin()
    ),
    "embedding and norm by keyword": lambda t: case(
        ids(5, t),
        lambda m, x: m.norm(input=m.a(input=x)),
        a=nn.Embedding(5, W),
        norm=nn.LayerNorm(W),
    ),
    "with an output size": _grown,
    "once without gradient": lambda t: case(floats(t, W), _no_grad, a=lin(), head=lin()),
    "in a list": lambda t: case(
        floats(t, W),
        lambda m, x: m.layers[1](torch.tanh(m.layers[0](x))) * m.scales[0] + m.named["b"],
        layers=nn.ModuleList([lin(), lin()]),
        scales=nn.ParameterList([param(W)]),
        named=nn.ParameterDict({"b": param()}),
    ),
    "of a dict": lambda t: case(
        dict_of(x=floats(t, W), words=ids(5, t)),
        lambda m, x: m.head(torch.tanh(m.a(x["x"]) + m.words(x["words"]))),
        a=lin(),
        words=nn.Embedding(5, W),
        head=lin(),
    ),
    "of a tuple": lambda t: case(
        tuple_of(floats(t, W), floats(W)),
        lambda m, x: m.head(torch.tanh(m.a(x[0]) * m.b(x[1])[:, None])),
        a=lin(),
        b=lin(),
        head=lin(),
    ),
    "to a tuple": lambda t: case(
        floats(t, W), lambda m, x: (m.a(x), m.b(m.a(x).sum(1))), a=lin(), b=lin()
    ),
    "to a dict": lambda t: case(
        floats(t, W), lambda m, x: {"one": m.a(x), "two": [m.b(x)]}, a=lin(), b=lin()
    ),
    "rows without numbers": lambda t: case(
        floats(0, W), lambda m, x: m.b(torch.tanh(m.a(x)).sum(1)), a=lin(), b=lin()
    ),
    "one number a row": lambda t: case(floats(W), lambda m, x: m.a(x).squeeze(-1), a=lin(W, 1)),
    "flattened": lambda t: case(
        floats(2, t),
        lambda m, x: m.head(torch.tanh(m.a(x)).flatten(1)),
        a=nn.Conv1d(2, 2, 1),
        head=lin(2 * t, 2),
    ),
    "not contiguous": lambda t: case(
        floats(t, 2, W),
        lambda m, x: m.head(torch.tanh(m.a(x.permute(0, 3, 2, 1)))),
        a=nn.Conv2d(W, W, 1),
        head=lin(t, 2),
    ),
    "one row broadcast": lambda t: case(
        floats(W), lambda m, x: m.a(x[:, None].expand(len(x), t, W)), a=lin()
    ),
}
