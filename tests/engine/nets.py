"""Small models written as one function over named parts, and rows for them."""

import torch
from laws import Case, jittered
from torch import nn

WIDTH = 3


class Net(nn.Module):
    """``forward(net, x)`` over parts that may be modules or parameters."""

    def __init__(self, does, **parts):
        super().__init__()
        self.does = does
        for name, part in parts.items():
            if isinstance(part, nn.Module | nn.Parameter):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x):
        return self.does(self, x)


def lin(inputs=WIDTH, outputs=WIDTH, **options):
    return nn.Linear(inputs, outputs, **options)


def param(*shape):
    return nn.Parameter(torch.randn(shape))


def floats(*shape):
    return lambda n: torch.randn(n, *shape, dtype=torch.float64)


def ids(words, *shape):
    return lambda n: torch.randint(words, (n, *shape))


def dict_of(**parts):
    return lambda n: {name: rows(n) for name, rows in parts.items()}


def tuple_of(*parts):
    return lambda n: tuple(rows(n) for rows in parts)


def case(rows, does, **parts):
    """Return a case in float64 whose parameters are off their initial values."""
    return Case(jittered(Net(does, **parts).double()), rows)
