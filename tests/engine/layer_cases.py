"""One layer with every option it has, alone or between others: name to (draw → Case)."""

import torch
from hypothesis import strategies as st
from laws import Case, jittered
from torch import nn


class Between(nn.Module):
    """A trainable layer before and an activation, in place or not, after the layer in question."""

    def __init__(self, layer, width, after):
        super().__init__()
        self.before, self.layer, self.after = nn.Linear(width, width), layer, after

    def forward(self, x):
        return self.after(self.layer(torch.tanh(self.before(x))))


def _floats(draw, layer, shape):
    after = draw(st.sampled_from([None, nn.Tanh(), nn.ReLU(inplace=True)]))
    model = layer if after is None else Between(layer, shape[-1], after)
    model = jittered(model.double())
    return Case(model, lambda n: torch.randn(n, *shape, dtype=torch.float64))


def _int(low, high):
    return st.integers(low, high)


def _dims(dim, low, high):
    return st.tuples(*[_int(low, high)] * dim)


def linear(draw):
    width, out = draw(st.sampled_from([1, 2, 3, 9])), draw(st.sampled_from([1, 2, 3, 9]))
    middle = draw(st.lists(_int(1, 3), max_size=2))
    return _floats(draw, nn.Linear(width, out, bias=draw(st.booleans())), (*middle, width))


CONVS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def _channels(draw):
    """Groups and channels; now and then so many that other formulas are cheaper."""
    groups, wide = draw(st.sampled_from([(1, 1), (1, 1), (1, 12), (2, 1), (3, 1)]))
    return groups, wide * groups * draw(_int(1, 2)), wide * groups * draw(_int(1, 2))


def conv(dim):
    def drawn(draw):
        groups, channels, out = _channels(draw)
        kernel, dilation = draw(_dims(dim, 1, 3)), draw(_dims(dim, 1, 2))
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        size = tuple(r + 1 + draw(_int(0, 2)) for r in reach)
        padding = draw(st.sampled_from(["same", "valid", "int", "tuple"]))
        stride = (1,) * dim if padding == "same" else draw(_dims(dim, 1, 2))
        if padding == "int":
            padding = draw(_int(0, min(2, *(s - 1 for s in size), 2)))
        elif padding == "tuple":
            padding = tuple(draw(_int(0, min(2, s - 1))) for s in size)
        mode = draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]))
        layer = CONVS[dim](
            channels, out, kernel, stride, padding, dilation, groups, draw(st.booleans()), mode
        )
        return _floats(draw, layer, (channels, *size))

    return drawn


def transposed(dim):
    def drawn(draw):
        groups, channels, out = _channels(draw)
        kernel, dilation = draw(_dims(dim, 1, 3)), draw(_dims(dim, 1, 2))
        stride = draw(_dims(dim, 1, 3))
        padding = tuple(
            draw(_int(0, d * (k - 1) // 2)) for k, d in zip(kernel, dilation, strict=True)
        )
        extra = tuple(draw(_int(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
        layer = TRANSPOSED[dim](
            channels, out, kernel, stride, padding, extra, groups, draw(st.booleans()), dilation
        )
        return _floats(draw, layer, (channels, *draw(_dims(dim, 1, 3))))

    return drawn


class Looked(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.after = nn.Linear(embedding.embedding_dim, 2)

    def forward(self, ids):
        return self.after(torch.tanh(self.embedding(ids)))


def embedding(draw):
    words, width = draw(st.sampled_from([2, 3, 5, 40])), draw(_int(1, 4))
    padding = draw(st.sampled_from([None, 0, words - 1, -1]))
    layer = nn.Embedding(words, width, padding_idx=padding)
    middle = draw(st.lists(_int(1, 3), max_size=2))
    model = jittered((Looked(layer) if draw(st.booleans()) else layer).double())
    return Case(model, lambda n: torch.randint(words, (n, *middle)))


def layer_norm(draw):
    middle = tuple(draw(st.lists(_int(1, 3), max_size=2)))
    shape = draw(st.sampled_from([(2,), (4,), (2, 3), (1, 2)]))
    bias = draw(st.booleans())
    return _floats(draw, nn.LayerNorm(shape, bias=bias), (*middle, *shape))


def rms_norm(draw):
    middle = tuple(draw(st.lists(_int(1, 3), max_size=2)))
    shape = draw(st.sampled_from([(1,), (4,), (2, 3)]))
    eps = draw(st.sampled_from([None, 1e-3]))
    return _floats(draw, nn.RMSNorm(shape, eps=eps), (*middle, *shape))


def group_norm(draw):
    groups = draw(_int(1, 3))
    spatial = tuple(draw(st.lists(_int(2, 3), max_size=3)))
    channels = groups * draw(_int(1 if spatial else 2, 2))
    return _floats(draw, nn.GroupNorm(groups, channels), (channels, *spatial))


INSTANCE = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}


def instance_norm(dim):
    def drawn(draw):
        channels = draw(_int(1, 3))
        size = draw(_dims(dim, 2, 3))
        return _floats(draw, INSTANCE[dim](channels, affine=True), (channels, *size))

    return drawn


def prelu(draw):
    shape = tuple(draw(st.lists(_int(1, 3), min_size=1, max_size=3)))
    return _floats(draw, nn.PReLU(draw(st.sampled_from([1, shape[0]]))), shape)


class OfPair(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, pair):
        return self.layer(*pair)


def bilinear(draw):
    first, second, out = draw(_dims(3, 1, 3))
    middle = tuple(draw(st.lists(_int(1, 3), max_size=2)))
    model = OfPair(nn.Bilinear(first, second, out, bias=draw(st.booleans())))
    model = jittered(model.double())

    def rows(n):
        return tuple(torch.randn(n, *middle, d, dtype=torch.float64) for d in (first, second))

    return Case(model, rows)


LAYERS = {
    "Linear": linear,
    **{f"Conv{d}d": conv(d) for d in CONVS},
    **{f"ConvTranspose{d}d": transposed(d) for d in TRANSPOSED},
    "Embedding": embedding,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "GroupNorm": group_norm,
    **{f"InstanceNorm{d}d": instance_norm(d) for d in INSTANCE},
    "PReLU": prelu,
    "Bilinear": bilinear,
}
