"""What no engine need be able to do, as long as it never gives another norm: name to (t → Case).

The part in question is always called ``part``.
"""

from types import MethodType

import torch
from nets import WIDTH, case, dict_of, floats, ids, lin, param
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

W = WIDTH


def _of_linear(does, rows=None):
    """``does(part, x)`` before a tanh and a second layer."""

    def build(t):
        return case(
            (rows or (lambda t: floats(t, W)))(t),
            lambda m, x: m.head(torch.tanh(does(m.part, x))), part=lin(), head=lin(),
        )  # fmt: skip

    return build


def _of_sum(does):
    """``does(part, x)`` gives rows that may have become something else; they are summed up."""
    return lambda t: case(floats(t, W), lambda m, x: does(m.part, x), part=lin())


def _chosen(part, x):
    h = torch.zeros_like(x)
    chosen = x[:, 0, 0] > 0
    h[chosen] = part(x[chosen])
    return h


def _by_sign(part, x):
    up = x[:, 0, 0] > 0
    return torch.where(up[:, None, None], part(x.abs()), 0 * x)


def _row_after_row(part, x):
    return torch.stack([part(row) for row in x]) if len(x) else part(x)


def _in_halves(part, x):
    return torch.cat([part(half) for half in x.split(2)]) if len(x) else part(x)


def _sorted(part, x):
    order = x[:, 0, 0].argsort()
    return part(x[order])[order.argsort()]


def _force(m, x):
    with torch.enable_grad():
        place = x.detach().requires_grad_()
        energy = torch.tanh(m.part(place)).square().sum()
        return torch.autograd.grad(energy, place, create_graph=True)[0]


def _hooked(t):
    made = case(floats(t, W), lambda m, x: m.head(torch.tanh(m.part(x))), part=lin(), head=lin())
    made.model.part.register_forward_hook(lambda m, args, out: 2 * out)
    return made


def _pre_hooked(t):
    made = case(floats(t, W), lambda m, x: m.head(torch.tanh(m.part(x))), part=lin(), head=lin())
    made.model.part.register_forward_pre_hook(lambda m, args: (2 * args[0],))
    return made


def _parameter_hooked(t):
    made = case(floats(t, W), lambda m, x: m.part(torch.tanh(m.first(x))), first=lin(), part=lin())
    made.model.part.weight.register_hook(lambda g: 2 * g)
    return made


def _compiled(t):
    part = torch.compile(lin(), backend="eager")
    return case(floats(t, W), lambda m, x: m.head(torch.tanh(m.part(x))), part=part, head=lin())


def _backward_hooked(t):
    made = case(floats(t, W), lambda m, x: m.part(torch.tanh(m.first(x))), first=lin(), part=lin())
    made.model.part.register_full_backward_hook(lambda m, gi, go: (3 * gi[0],))
    return made


def _doubled(self, x):
    return 2 * torch.nn.functional.linear(x, self.weight, self.bias)


def _replaced_forward(bind):
    def build(t):
        made = case(
            floats(t, W), lambda m, x: m.head(torch.tanh(m.part(x))), part=lin(), head=lin()
        )
        made.model.part.forward = bind(made.model.part)
        return made

    return build


def _packed(t):
    def does(m, x):
        packed = pack_padded_sequence(
            x["x"], x["lengths"].cpu(), batch_first=True, enforce_sorted=False
        )
        return m.head(pad_packed_sequence(m.part(packed)[0], True, total_length=t)[0])

    return case(
        dict_of(x=floats(t, 2), lengths=lambda n: torch.randint(1, t + 1, (n,))),
        does, part=nn.GRU(2, 3, batch_first=True), head=lin(3, 2),
    )  # fmt: skip


def _time_first(kind):
    return lambda t: case(
        floats(t, 2), lambda m, x: m.head(torch.tanh(m.part(x.transpose(0, 1))[0].transpose(0, 1))),
        part=kind(2, 3), head=lin(3, 2),
    )  # fmt: skip


def _attention_time_first(t):
    def does(m, x):
        turned = x.transpose(0, 1)
        return m.part(turned, turned, turned)[0].transpose(0, 1)

    return case(floats(t, 4), does, part=nn.MultiheadAttention(4, 2))


def _bags(**options):
    return lambda t: case(
        ids(5, t), lambda m, x: m.head(torch.tanh(m.part(x))),
        part=nn.EmbeddingBag(5, W, **options), head=lin(),
    )  # fmt: skip


def _bags_with_offsets(t):
    def does(m, x):
        return m.head(torch.tanh(m.part(x.flatten(), torch.arange(len(x)) * t)))

    return case(ids(5, t), does, part=nn.EmbeddingBag(5, W), head=lin())


DOUBTFUL = {
    "rows flattened": _of_linear(lambda p, x: p(x.reshape(-1, W)).view_as(x)),
    "rows behind": _of_linear(lambda p, x: p(x.transpose(0, 1)).transpose(0, 1)),
    "rows in the other order": _of_linear(lambda p, x: p(x.flip(0)).flip(0)),
    "rows rolled": _of_linear(lambda p, x: p(x.roll(1, 0)).roll(-1, 0)),
    "rows sorted": _of_linear(_sorted),
    "rows twice": _of_linear(lambda p, x: p(torch.cat([x, x.tanh()]))[len(x) :]),
    "rows twice, both used": _of_sum(lambda p, x: p(torch.cat([x, -x])).chunk(2)[0]),
    "rows repeated": _of_sum(
        lambda p, x: torch.tanh(p(x.repeat_interleave(2, 0))).unflatten(0, (-1, 2)).sum(1)
    ),
    "rows split": lambda t: case(
        floats(2, W),
        lambda m, x: torch.tanh(m.part(x.reshape(-1, W))).view_as(x).sum(1),
        part=lin(),
    ),
    "rows beside constants": _of_sum(
        lambda p, x: torch.tanh(p(torch.cat([torch.ones_like(x[:1]), x])))[1:]
    ),
    "rows in halves": _of_linear(_in_halves),
    "row after row": _of_linear(_row_after_row),
    "chosen rows": _of_linear(_chosen),
    "rows masked": _of_linear(_by_sign),
    "all rows beside each": _of_linear(lambda p, x: p(x[None].expand(2, *x.shape))[1]),
    "vmapped": _of_linear(lambda p, x: torch.func.vmap(p)(x)),
    "checkpointed": _of_linear(lambda p, x: checkpoint(p, x, use_reentrant=False)),
    "derivative inside": lambda t: case(floats(t, W), _force, part=lin()),
    "hook on the output": _hooked,
    "hook on the input": _pre_hooked,
    "hook on the gradient": _backward_hooked,
    "hook on a parameter": _parameter_hooked,
    "compiled": _compiled,
    "another forward": _replaced_forward(lambda part: MethodType(_doubled, part)),
    "another forward, by closure": _replaced_forward(lambda part: lambda x: _doubled(part, x)),
    "packed sequences": _packed,
    "LSTM, time first": _time_first(nn.LSTM),
    "GRU, time first": _time_first(nn.GRU),
    "attention, time first": _attention_time_first,
    "bags": _bags(),
    "bags summed": _bags(mode="sum", padding_idx=1),
    "bags of maxima": _bags(mode="max"),
    "bags with offsets": _bags_with_offsets,
    "scale over rows of a shape": lambda t: case(
        floats(t, W), lambda m, x: x * m.part.unsqueeze(0).expand(len(x), t, W), part=param(t, W)
    ),
    "scale in the last place": lambda t: case(
        floats(t, W), lambda m, x: (x.movedim(0, -1) * m.part).movedim(-1, 0), part=param()
    ),
    "scale behind rows": lambda t: case(
        floats(t), lambda m, x: (m.part[:, None] * x.T).T, part=param(t)
    ),
}
