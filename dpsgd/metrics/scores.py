"""How well each example was predicted: what every metric is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MIN_PROBABILITY = 1e-12


@dataclass(frozen=True)
class Scores:
    """Figures of ``n`` examples, each ``[n]`` float64.

    Attributes:
        labels: ``[n]`` integers, or None for examples that are many tokens.
        correct: 1 if the label was the likeliest; of tokens the share for which it was.
        confidence: the highest probability; of tokens their mean, as below.
        nll: −ln of the label's probability, in nats.
        brier: Σ_k (p_k − 1[k = label])² (Brier, 1950).
        probabilities: ``[n, classes]``, or None for tokens, which would fill the memory.

    """

    labels: np.ndarray | None
    correct: np.ndarray
    confidence: np.ndarray
    nll: np.ndarray
    brier: np.ndarray
    probabilities: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.correct)

    def of(self, chosen: np.ndarray) -> Scores:
        """Return the scores of some examples, without their probabilities."""
        return Scores(
            None if self.labels is None else self.labels[chosen],
            self.correct[chosen], self.confidence[chosen], self.nll[chosen], self.brier[chosen],
        )  # fmt: skip


def class_scores(probabilities: np.ndarray, labels: np.ndarray) -> Scores:
    """Return the scores of ``[n, classes]`` probabilities, rows summing to 1, and ``[n]`` labels.

    Raises ValueError for probabilities that are not finite, and for labels outside their columns.
    """
    values = probabilities.astype(np.float64)
    bad = int((~np.isfinite(values).all(axis=1)).sum())
    if bad:
        raise ValueError(f"the probabilities of {bad} of {len(values)} rows are not finite")
    classes = values.shape[1]
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"labels {labels.min()} to {labels.max()} for {classes} probabilities")
    own = (np.arange(len(labels)), labels)
    correct = (values.argmax(1) == labels).astype(np.float64)
    confidence = values.max(1, initial=0.0)
    nll = -np.log(np.maximum(values[own], MIN_PROBABILITY))
    values[own] -= 1
    return Scores(
        labels=labels,
        correct=correct,
        confidence=confidence,
        nll=nll,
        brier=np.square(values).sum(1),
        probabilities=probabilities,
    )


def token_scores(probabilities: np.ndarray, labels: np.ndarray, ignored: int) -> Scores:
    """Return each example's mean over its tokens of the scores that a class would have.

    Args:
        probabilities: ``[n, T, classes]``.
        labels: ``[n, T]``, ``ignored`` where there is no token.
        ignored: the label that is none.

    An example without a token has NaN for every score. Raises ValueError as
    :func:`class_scores` does.

    """
    known = labels != ignored
    each = class_scores(probabilities[known], labels[known])
    counts = known.sum(1).astype(np.float64)
    example = np.repeat(np.arange(len(labels)), known.sum(1))

    def mean(values: np.ndarray) -> np.ndarray:
        total = np.bincount(example, weights=values, minlength=len(labels))
        return np.divide(total, counts, out=np.full(len(labels), np.nan), where=counts > 0)

    return Scores(None, mean(each.correct), mean(each.confidence), mean(each.nll), mean(each.brier))


def joined(parts: Sequence[Scores]) -> Scores:
    """Return the token scores of several chunks as one."""
    return Scores(
        None,
        np.concatenate([part.correct for part in parts]),
        np.concatenate([part.confidence for part in parts]),
        np.concatenate([part.nll for part in parts]),
        np.concatenate([part.brier for part in parts]),
    )
