"""Predictions with known labels and slices, made without torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpsgd.metrics import evaluate
from dpsgd.slices import SliceTable


def predictions(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities [n, classes] of a fair classifier, and labels [n]."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=n)
    logits = 2 * generator.normal(size=(n, classes))
    logits[np.arange(n), labels] += 2
    odds = np.exp(logits)
    return odds / odds.sum(1, keepdims=True), labels


def by_label(labels: np.ndarray, classes: int, tail: Sequence[int] = ()) -> SliceTable:
    """Return slices all, one a class, and bands head and tail of the classes."""
    in_tail = np.isin(labels, list(tail))
    keys = [("all", "all"), *(("label", str(k)) for k in range(classes))]
    keys += [("rarity", "head"), ("rarity", "tail")]
    member = [np.ones(len(labels), bool), *(labels == k for k in range(classes)), ~in_tail, in_tail]
    return SliceTable(tuple(keys), np.stack(member, axis=1))


def evaluated(
    probabilities: np.ndarray,
    labels: np.ndarray,
    *,
    tail: Sequence[int] = (),
    slices: SliceTable | None = None,
    seed: int = 0,
    min_n: int = 5,
) -> pd.DataFrame:
    """Evaluate with a generator of its own."""
    return evaluate(
        probabilities,
        labels,
        slices or by_label(labels, probabilities.shape[1], tail),
        tail,
        step=7,
        split="test",
        release="public",
        generator=np.random.default_rng(seed),
        min_n=min_n,
    )


def row(frame: pd.DataFrame, metric: str, kind: str = "all", name: str = "all") -> pd.Series:
    """Return the one row of this metric and slice."""
    chosen = frame["slice_kind"].eq(kind) & frame["slice"].eq(name) & frame["metric"].eq(metric)
    assert chosen.sum() == 1
    return frame[chosen].iloc[0]


def value(frame: pd.DataFrame, metric: str, kind: str = "all", name: str = "all") -> float:
    return float(row(frame, metric, kind, name)["value"])
