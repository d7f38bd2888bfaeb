"""Parameters of no layer, outside their layer, never reached or frozen: name to (t → Case)."""

import torch
from nets import WIDTH, case, floats, ids, lin, param
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

W = WIDTH


def _weight_norm(t):
    layer = parametrizations.weight_norm(lin())
    return case(floats(t, W), lambda m, x: m.head(torch.tanh(m.layer(x))), layer=layer, head=lin())


class Twofold(nn.Linear):
    def forward(self, x):
        return functional.linear(x, 2 * self.weight.tanh(), self.bias) * x.mean(-1, keepdim=True)


class Standardised(nn.Conv1d):
    def forward(self, x):
        weight = self.weight - self.weight.mean(dim=(1, 2), keepdim=True)
        return functional.conv1d(x, weight, self.bias, padding=1)


class Plain(nn.Linear):
    pass


class Scale(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.factor = param(*shape)

    def forward(self, x):
        return x * self.factor


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.shift = param(2, W, W), param(2, W)

    def forward(self, x):
        return torch.einsum("btd,hde->bthe", x, self.weight) + self.shift


class Lora(nn.Module):
    """A frozen layer with a trainable product of two small matrices beside it."""

    def __init__(self):
        super().__init__()
        self.base = lin().requires_grad_(False)
        self.down, self.up = param(2, W), param(W, 2)

    def forward(self, x):
        return self.base(x) + 0.5 * (x @ self.down.T) @ self.up.T


OUTSIDE = {
    # parameters of no layer
    "vector": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(x * m.scale)), scale=param(W), head=lin()
    ),
    "temperature": lambda t: case(
        floats(t, W), lambda m, x: m.head(x) / (1 + m.heat.square()), heat=param(), head=lin()
    ),
    "only a temperature": lambda t: case(floats(t), lambda m, x: x * m.heat, heat=param()),
    "vector of a small module": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(m.scale(x))), scale=Scale(W), head=lin()
    ),
    "number of a small module": lambda t: case(
        floats(t, W), lambda m, x: m.scale(torch.tanh(m.head(x))), scale=Scale(), head=lin()
    ),
    "mean of a vector": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(torch.tanh(x * m.scale.mean())),
        scale=param(W),
        head=lin(),
    ),
    "softmax of a matrix": lambda t: case(
        floats(t, W), lambda m, x: m.head(m.mix.softmax(0) @ x), mix=param(t, t), head=lin()
    ),
    "vector of a module that is not called": lambda t: case(
        floats(t, W), lambda m, x: m.head(x * m.scale.factor), scale=Scale(W), head=lin()
    ),
    "recurrence of constants": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(torch.tanh(x + m.a(m.kept[None])[0])),
        a=nn.GRU(W, W, batch_first=True),
        kept=torch.randn(t, W),
        head=lin(),
    ),
    "vector twice": lambda t: case(
        floats(t, W), lambda m, x: m.scale * torch.tanh(m.scale + x), scale=param(W)
    ),
    "matrix over positions": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(m.mix @ x)), mix=param(t, t), head=lin()
    ),
    "table by index": lambda t: case(
        ids(5, t), lambda m, x: m.head(torch.tanh(m.table[x])), table=param(5, W), head=lin()
    ),
    "einsum of one's own": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(m.own(x))), own=Einsum(), head=lin()
    ),
    # not called, or not reached
    "never called": lambda t: case(floats(t, W), lambda m, x: m.a(x), a=lin(), idle=lin()),
    "never called, of no layer": lambda t: case(
        floats(t, W), lambda m, x: m.a(x), a=lin(), idle=param(2), other=nn.LSTM(2, 2)
    ),
    "not reached": lambda t: case(
        floats(t, W), lambda m, x: (m.idle(x), m.a(x))[1], a=lin(), idle=lin()
    ),
    "not reached the second time": lambda t: case(
        floats(t, W), lambda m, x: (m.a(x), m.a(x.tanh()))[1], a=lin()
    ),
    "detached": lambda t: case(
        floats(t, W), lambda m, x: m.a(x) * m.idle(x).detach(), a=lin(), idle=lin()
    ),
    "nothing reached": lambda t: case(floats(t, W), lambda m, x: m.a(x).detach(), a=lin()),
    # outside their layer
    "only its weight": lambda t: case(
        floats(t, W), lambda m, x: functional.linear(x, m.a.weight), a=lin()
    ),
    "called, and its weight": lambda t: case(
        floats(t, W), lambda m, x: functional.linear(torch.tanh(m.a(x)), m.a.weight.T), a=lin()
    ),
    "called, and its bias": lambda t: case(
        floats(t, W), lambda m, x: torch.tanh(m.a(x)) * m.a.bias, a=lin()
    ),
    "called, and its kernel": lambda t: case(
        floats(2, t),
        lambda m, x: functional.conv1d(torch.tanh(m.a(x)), m.a.weight.flip(2), padding=1),
        a=nn.Conv1d(2, 2, 3, padding=1),
    ),
    "looked up, and its table": lambda t: case(
        ids(5, t), lambda m, x: torch.tanh(m.a(x)) @ m.a.weight.T, a=nn.Embedding(5, W)
    ),
    "called, and punished": lambda t: case(
        floats(t, W), lambda m, x: m.a(x) + m.a.weight.square().sum(), a=lin()
    ),
    "weight norm": _weight_norm,
    "subclass with a forward": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(m.a(x))), a=Twofold(W, W), head=lin()
    ),
    "convolution with a forward": lambda t: case(
        floats(2, t), lambda m, x: m.a(x), a=Standardised(2, 2, 3)
    ),
    "subclass without": lambda t: case(floats(t, W), lambda m, x: m.a(x), a=Plain(W, W)),
    # parts that are not trained
    "frozen first": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(torch.tanh(m.base(x))),
        base=lin().requires_grad_(False),
        head=lin(),
    ),
    "frozen between": lambda t: case(
        floats(t, W),
        lambda m, x: m.head(torch.tanh(m.base(torch.tanh(m.first(x))))),
        first=nn.LayerNorm(W),
        base=lin().requires_grad_(False),
        head=lin(),
    ),
    "frozen embedding": lambda t: case(
        ids(5, t),
        lambda m, x: m.head(torch.tanh(m.words(x))),
        words=nn.Embedding(5, W).requires_grad_(False),
        head=lin(),
    ),
    "adapters as parameters": lambda t: case(
        floats(t, W), lambda m, x: m.head(torch.tanh(m.a(x))), a=Lora(), head=lin()
    ),
    "adapters as layers": lambda t: case(
        floats(t, W),
        lambda m, x: m.base(x) + m.up(m.down(x)),
        base=lin().requires_grad_(False),
        down=lin(W, 2, bias=False),
        up=lin(2, W, bias=False),
    ),
}
