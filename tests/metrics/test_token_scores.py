"""Scores of examples that are many tokens."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from analysis import schema
from dpsgd.data.bundle import IGNORED, Split
from dpsgd.metrics import evaluate_scores
from dpsgd.metrics.scores import class_scores, joined, token_scores
from dpsgd.slices import SliceTable
from dpsgd.training import evaluate as evaluation


def _tokens(n=30, places=6, classes=5):
    rng = np.random.default_rng(0)
    odds = np.exp(rng.normal(size=(n, places, classes)))
    labels = rng.integers(classes, size=(n, places))
    labels[np.arange(places) >= rng.integers(1, places + 1, size=n)[:, None]] = IGNORED
    return odds / odds.sum(-1, keepdims=True), labels


def _slices(n):
    keys = (("all", "all"), ("column", "even"), ("column", "none"))
    even = np.arange(n) % 2 == 0
    return SliceTable(keys, np.column_stack([np.ones(n, bool), even, np.zeros(n, bool)]))


def _evaluate(scores, slices, seed=0):
    return evaluate_scores(
        scores, slices, (1,), step=3, split="test", release="public",
        generator=np.random.default_rng(seed), min_n=5,
    )  # fmt: skip


def _row(table, metric, name="all"):
    (row,) = table[table["metric"].eq(metric) & table["slice"].eq(name)].to_dict("records")
    return row


def test_an_examples_score_is_the_mean_over_its_own_tokens():
    probabilities, labels = _tokens()
    scores = token_scores(probabilities, labels, IGNORED)
    assert scores.labels is None
    for i, (p, y) in enumerate(zip(probabilities, labels, strict=True)):
        alone = class_scores(p[y != IGNORED], y[y != IGNORED])
        for name in ("correct", "confidence", "nll", "brier"):
            assert getattr(scores, name)[i] == pytest.approx(getattr(alone, name).mean())


def test_chunks_join_to_the_whole():
    probabilities, labels = _tokens()
    whole = token_scores(probabilities, labels, IGNORED)
    parts = [token_scores(probabilities[i::1][:7], labels[i:][:7], IGNORED)
             for i in range(0, 30, 7)]  # fmt: skip
    for name in ("correct", "confidence", "nll", "brier"):
        assert np.array_equal(getattr(joined(parts), name), getattr(whole, name))


def test_an_example_without_tokens_is_left_out():
    probabilities, labels = _tokens()
    empty = labels.copy()
    empty[4] = IGNORED
    scores = token_scores(probabilities, empty, IGNORED)
    assert np.isnan(scores.nll[4])
    table = _evaluate(scores, _slices(30))
    assert _row(table, "nll")["n"] == 29
    rest = np.delete(token_scores(probabilities, labels, IGNORED).nll, 4)
    assert _row(table, "nll")["value"] == pytest.approx(rest.mean())


def test_tokens_have_what_examples_have_and_no_more():
    scores = token_scores(*_tokens(), IGNORED)
    table = _evaluate(scores, _slices(30))
    assert set(table["metric"]) == {*schema.METRICS_BY_SLICE, *schema.METRICS_OVERALL}
    for metric, name in (("accuracy", "correct"), ("nll", "nll"), ("brier", "brier")):
        row = _row(table, metric)
        assert row["value"] == pytest.approx(getattr(scores, name).mean())
        assert row["lo"] < row["value"] < row["hi"]
        assert _row(table, metric, "even")["n"] == 15
        assert np.isnan(_row(table, metric, "none")["value"])
    for metric in ("recall", "ece", "ece_calibrated", "macro_accuracy", "tail_band"):
        assert np.isnan([_row(table, metric)[k] for k in ("value", "lo", "hi")]).all()
    worst = min(_row(table, "accuracy", name)["value"] for name in ("all", "even"))
    assert _row(table, "tail_worst")["value"] == pytest.approx(worst)


def test_intervals_are_over_examples_not_tokens():
    # Every token of an example is the same: longer examples make no interval narrower.
    rng = np.random.default_rng(0)
    right = rng.integers(2, size=60)
    widths = []
    for places in (1, 50):
        labels = np.zeros((60, places), dtype=np.int64)
        probabilities = np.repeat(np.eye(2)[right][:, None], places, axis=1)
        row = _row(_evaluate(token_scores(probabilities, labels, IGNORED), _slices(60)), "accuracy")
        widths.append(row["hi"] - row["lo"])
    assert widths[0] == pytest.approx(widths[1])
    assert widths[0] > 0.15


def test_examples_that_are_all_half_right_leave_no_doubt():
    labels = np.tile([0, 1], (40, 1))
    probabilities = np.tile(np.array([0.9, 0.1]), (40, 2, 1))
    row = _row(_evaluate(token_scores(probabilities, labels, IGNORED), _slices(40)), "accuracy")
    assert row["value"] == row["lo"] == row["hi"] == 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_probabilities_that_are_not_finite_are_refused(bad):
    probabilities, labels = _tokens()
    probabilities[3, 0] = bad
    with pytest.raises(ValueError, match="not finite"):
        token_scores(probabilities, labels, IGNORED)


class _Counted(nn.Module):
    """Logits that are a table's row; remembers the most rows that it saw at once."""

    def __init__(self, places, classes):
        super().__init__()
        self.table = nn.Embedding(classes, classes)
        self.most = 0

    def forward(self, x):
        assert not self.training
        self.most = max(self.most, len(x))
        return self.table(x)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_model_is_scored_chunk_by_chunk_and_left_in_its_mode(monkeypatch, n):
    torch.manual_seed(0)
    model = _Counted(6, 5).train()
    _, labels = _tokens(n)
    inputs = torch.randint(5, (n, 6))
    split = Split("test", inputs, torch.from_numpy(labels), np.arange(n), {})
    monkeypatch.setattr(evaluation, "CHUNK", 12)
    scores = evaluation.scores(model, split, "cpu", "tokens")
    assert model.most <= 2
    assert model.training
    expected = token_scores(
        torch.softmax(model.table(inputs), -1).detach().numpy(), labels, IGNORED
    )
    assert np.allclose(scores.nll, expected.nll)
    assert len(scores) == n


def test_classes_keep_their_probabilities():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    split = Split("test", torch.randn(9, 4), torch.randint(3, (9,)), np.arange(9), {})
    scores = evaluation.scores(model, split, "cpu", "classes")
    expected = evaluation.probabilities(model, split.inputs, "cpu")
    assert scores.probabilities is not None
    assert np.array_equal(scores.probabilities, expected)
    assert scores.probabilities.dtype == np.float32
    again = class_scores(expected, split.labels.numpy())
    for field in dataclasses.fields(again):
        assert np.array_equal(getattr(scores, field.name), getattr(again, field.name))
