"""Faults planted in the fast engine turn the laws red; a wrong formula is found by trial."""

import pytest
import torch
from engines import fast
from laws import check_equal, curved_loss
from nets import WIDTH, case, floats, ids, lin
from torch import nn
from torch.nn import functional

from dpsgd.engine import capturing, clip_groups, convolution, layers, settled
from dpsgd.engine.checks import check_engine
from dpsgd.engine.layers import embedding, layer_norm
from dpsgd.engine.lookup import Lookup
from dpsgd.engine.trial import Trial
from dpsgd.errors import PrivacyError

W = WIDTH
SIZES = [4, [2, 0, 3]]


def _zeros_for_any_padding(monkeypatch):
    padded = convolution._padded

    def zeros(conv, a):
        mode, conv.padding_mode = conv.padding_mode, "zeros"
        try:
            return padded(conv, a)
        finally:
            conv.padding_mode = mode

    monkeypatch.setattr(convolution, "_padded", zeros)


def _kernel_out_of_place(monkeypatch):
    native = convolution.Convolved._native

    def rolled(self, a, g, shape, times):
        return native(self, a, g, shape, times).roll(1, -1)

    monkeypatch.setattr(convolution.Convolved, "_native", rolled)


def _padding_id_counts(monkeypatch):
    def forgets(module, tokens, g, wanted):
        found = embedding(module, tokens, g, wanted)["weight"]
        flat = g.reshape(len(g), -1, g.shape[-1])
        return {"weight": Lookup(found.ids, flat, found.vocabulary)}

    monkeypatch.setitem(layers.FAST, nn.Embedding, forgets)


def _norm_of_raw_inputs(monkeypatch):
    def raw(module, a, g, wanted):
        monkeypatch.setattr(functional, "layer_norm", lambda x, *_, **__: x)
        try:
            return layer_norm(module, a, g, wanted)
        finally:
            monkeypatch.undo()
            monkeypatch.setitem(layers.FAST, nn.LayerNorm, raw)

    monkeypatch.setitem(layers.FAST, nn.LayerNorm, raw)


def _squares_of_uses_added(monkeypatch):
    right = settled.settle

    def wrong(pieces, units):
        squared = torch.stack([right([piece], units).squared for piece in pieces]).sum(0)
        whole = right(pieces, units)
        return settled.Settled(squared, whole.piece, whole.of_units)

    monkeypatch.setattr(capturing, "settle", wrong)


def _squares_of_rows_added(monkeypatch):
    right = settled.settle

    def wrong(pieces, units):
        whole = right(pieces, units)
        squared = whole.squared if units is None else units.add(right(pieces, None).squared)
        return settled.Settled(squared, whole.piece, whole.of_units)

    monkeypatch.setattr(capturing, "settle", wrong)


def _bias_of_one_position(monkeypatch):
    right = layers.linear

    def wrong(module, a, g, wanted):
        found = right(module, a, g, wanted)
        return found | {"bias": layers.Rows(g.reshape(len(g), -1, g.shape[-1])[:, 0])}

    monkeypatch.setitem(layers.FAST, nn.Linear, wrong)


def _convolution():
    conv = nn.Conv1d(2, 2, 3, padding=2, padding_mode="reflect", dilation=2, groups=2)
    return case(floats(2, 6), lambda m, x: m.a(x), a=conv)


def _words():
    words = nn.Embedding(3, W, padding_idx=1)
    return case(ids(3, 6), lambda m, x: m.head(torch.tanh(m.a(x))), a=words, head=lin())


def _norm():
    return case(floats(4, W), lambda m, x: m.head(m.a(x)), a=nn.LayerNorm(W), head=lin())


def _twice():
    return case(floats(4, W), lambda m, x: m.a(torch.tanh(m.a(x))), a=lin())


FORMULAS = {
    "zeros for any padding": (_zeros_for_any_padding, _convolution),
    "kernel out of place": (_kernel_out_of_place, _convolution),
    "padding id counts": (_padding_id_counts, _words),
    "raw inputs": (_norm_of_raw_inputs, _norm),
    "bias of one position": (_bias_of_one_position, _twice),
}
ADDING = {
    "squares of uses added": (_squares_of_uses_added, _twice),
    "squares of rows added": (_squares_of_rows_added, _twice),
}


def _check(made):
    for sizes in SIZES:
        check_equal(fast(), made(), sizes, "tensor")


@pytest.mark.parametrize("fault", FORMULAS | ADDING)
def test_a_planted_fault_turns_the_law_red(fault, monkeypatch):
    torch.manual_seed(0)
    plant, made = (FORMULAS | ADDING)[fault]
    _check(made)
    plant(monkeypatch)
    monkeypatch.setattr(Trial, "wrong", lambda self, chosen: None)
    with pytest.raises(AssertionError, match="not close"):
        _check(made)


@pytest.mark.parametrize("fault", FORMULAS)
def test_a_wrong_formula_is_found_by_trial_and_not_used(fault, monkeypatch):
    torch.manual_seed(0)
    plant, made = FORMULAS[fault]
    plant(monkeypatch)
    _check(made)


def test_a_wrong_sum_of_uses_is_found_before_training(monkeypatch):
    torch.manual_seed(0)
    made = _twice()
    batch = made.rows(8), torch.rand(8, dtype=torch.float64), clip_groups(made.model, "all")
    check_engine(fast(), made.model, curved_loss, *batch)
    _squares_of_uses_added(monkeypatch)
    with pytest.raises(PrivacyError, match="engine=bookkeeping"):
        check_engine(fast(), made.model, curved_loss, *batch)
