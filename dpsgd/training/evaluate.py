"""Predictions of a model on a split."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd.data.bundle import IGNORED, Split
from dpsgd.metrics.scores import Scores, class_scores, joined, token_scores

CHUNK = 4096
"""Rows, or tokens, that a model is run on at once."""


def scores(
    model: nn.Module, split: Split, device: str, task: Literal["classes", "tokens"]
) -> Scores:
    """Return the scores of every example of a split; the model's mode is left as it was.

    Those of task ``classes`` hold the probabilities ``[n, classes]`` float32. Of task ``tokens``
    the probabilities of one chunk at a time are in memory.
    """
    if task == "classes":
        return class_scores(probabilities(model, split.inputs, device), split.labels.numpy())
    rows = max(CHUNK // max(split.labels.shape[1], 1), 1)
    with _evaluating(model):
        return joined(
            [
                token_scores(_softmax(model, x.to(device)).numpy(), y.numpy(), IGNORED)
                for x, y in zip(split.inputs.split(rows), split.labels.split(rows), strict=True)
            ]
        )


def losses(
    model: nn.Module, split: Split, device: str, task: Literal["classes", "tokens"]
) -> np.ndarray:
    """Return ``[n]`` float64: −ln of the label's probability in nats; of tokens their mean.

    Unlike ``nll`` of ``scores``, of classes it is told from the outputs themselves, so that no two
    records tie because their probabilities are both 1 in float32, or both too small to tell.
    """
    if task != "classes":
        return scores(model, split, device, task).nll
    found: list[Tensor] = []
    with _evaluating(model):
        for inputs, labels in zip(
            split.inputs.split(CHUNK), split.labels.split(CHUNK), strict=True
        ):
            outputs = model(inputs.to(device)).cpu().double()
            own = outputs.gather(1, labels[:, None])
            others = outputs.scatter(1, labels[:, None], -torch.inf).logsumexp(1, keepdim=True)
            found.append(torch.logaddexp(others - own, torch.zeros_like(own))[:, 0])
    return torch.cat(found).numpy() if found else np.zeros(0)


def probabilities(model: nn.Module, inputs: Tensor, device: str) -> np.ndarray:
    """Return class probabilities ``[n, classes]`` float32; the model's mode is left as it was."""
    with _evaluating(model):
        parts = [_softmax(model, chunk.to(device)) for chunk in inputs.split(CHUNK)]
    return torch.cat(parts).numpy()


def _softmax(model: nn.Module, inputs: Tensor) -> Tensor:
    return torch.softmax(model(inputs).float(), dim=-1).cpu()


def correct(model: nn.Module, split: Split, device: str) -> np.ndarray:
    """Return ``[n]`` float64 in [0, 1]: 1 for a record whose label is the likeliest, of tokens the
    share for which it is, NaN for a record without a token.

    A row whose output is not finite is wrong, and says nothing about the others.
    """
    labels = split.labels.flatten(1) if split.labels.dim() > 1 else split.labels[:, None]
    rows = max(CHUNK // max(labels.shape[1], 1), 1)
    found: list[Tensor] = []
    with _evaluating(model):
        for inputs, own in zip(split.inputs.split(rows), labels.split(rows), strict=True):
            outputs = _softmax(model, inputs.to(device)).reshape(*own.shape, -1)
            known = own != IGNORED
            right = (outputs.argmax(-1) == own) & outputs.isfinite().all(-1) & known
            found.append(right.sum(1).double() / known.sum(1).double())
    return torch.cat(found).numpy() if found else np.zeros(0)


@contextmanager
def _evaluating(model: nn.Module) -> Generator[None]:
    """Put the model into evaluation mode, without gradients, and back."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
