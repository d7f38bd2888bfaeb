"""Every metric of every slice, each with n and an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis import schema
from dpsgd.metrics.calibration import bin_index, ece_calibrated
from dpsgd.metrics.intervals import bootstrap_interval, percentiles, resample_weights, wilson
from dpsgd.metrics.scores import Scores, class_scores
from dpsgd.slices.table import SliceTable

BINS = 15
NAN = float("nan")


@dataclass(frozen=True)
class Estimate:
    """A value with its n and 95 % interval; NaN where there is nothing to say."""

    value: float
    n: int
    lo: float
    hi: float


def evaluate(
    probabilities: np.ndarray, labels: np.ndarray, slices: SliceTable,
    tail_classes: Sequence[int], *, step: int, split: str, release: str,
    generator: np.random.Generator, min_n: int,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows of ``schema.EVALUATION`` for one split.

    Args:
        probabilities: ``[n, classes]``, rows summing to 1.
        labels: ``[n]`` integers.
        slices: the split's slices.
        tail_classes: labels of the tail band, for ``tail_band``.
        step: the training step of the model.
        split: one of ``schema.SPLITS``.
        release: one of ``schema.RELEASES``.
        generator: for the bootstrap; global random state is not touched.
        min_n: below it ECE is null and a slice cannot be the worst one.

    Raises ValueError for probabilities that are not finite, and for labels outside their columns.
    See :func:`evaluate_scores`.

    """
    return evaluate_scores(
        class_scores(probabilities, labels), slices, tail_classes, step=step, split=split,
        release=release, generator=generator, min_n=min_n,
    )  # fmt: skip


def evaluate_scores(
    scores: Scores, slices: SliceTable, tail_classes: Sequence[int], *, step: int, split: str,
    release: str, generator: np.random.Generator, min_n: int,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows of ``schema.EVALUATION`` for one split; the arguments are as above.

    A slice without examples has null metrics and n = 0, never 0; one example has no bootstrap
    interval. The n of ``tail_worst`` is that of the worst slice.

    n is a number of examples, and resampling draws examples: the tokens of one depend on each
    other. Scores without labels (of tokens) have no recall, no ECE, no macro accuracy and no tail
    band, and examples without a token are left out.
    """
    known = np.isfinite(scores.nll)
    rows, slices = scores.of(known), replace(slices, membership=slices.membership[known])
    found: list[tuple[str, str, str, Estimate]] = []
    for i, (kind, name) in enumerate(slices.keys):
        chosen = rows.of(slices.membership[:, i])
        for metric, estimate in _slice_metrics(chosen, generator, min_n).items():
            found.append((kind, name, metric, estimate))
    for metric, estimate in _overall(rows, slices, tail_classes, generator, min_n).items():
        found.append(("all", "all", metric, estimate))
    frame = pd.DataFrame(
        [
            (step, split, kind, name, metric, e.value, e.n, e.lo, e.hi, release)
            for kind, name, metric, e in found
        ],
        columns=list(schema.EVALUATION),
    )
    return frame.astype(dict(schema.EVALUATION))


def _slice_metrics(rows: Scores, generator: np.random.Generator, min_n: int) -> dict[str, Estimate]:
    n = len(rows)
    if n == 0:
        return {metric: Estimate(NAN, 0, NAN, NAN) for metric in schema.METRICS_BY_SLICE}
    drawn = resample_weights(n, generator)
    result = {
        # The share of an example's tokens is no coin, so that its mean is no binomial share.
        "accuracy": _mean(rows.correct, drawn) if rows.labels is None else _share(rows.correct),
        "recall": _recall(rows, drawn),
        "nll": _mean(rows.nll, drawn),
        "brier": _mean(rows.brier, drawn),
    }
    if n < min_n or rows.labels is None:
        nothing = Estimate(NAN, n, NAN, NAN)
        return result | {"ece": nothing, "ece_calibrated": nothing}
    gap = (rows.correct - rows.confidence)[:, None]
    gap = gap * (bin_index(rows.confidence, BINS)[:, None] == np.arange(BINS))
    result["ece"] = Estimate(
        float(np.abs(gap.sum(0)).sum() / n),
        n,
        *bootstrap_interval(np.abs(drawn @ gap).sum(1) / n, n),
    )
    null = ece_calibrated(rows.confidence, generator, bins=BINS)
    result["ece_calibrated"] = Estimate(float(null.mean()), n, *percentiles(null))
    return result


def _share(correct: np.ndarray) -> Estimate:
    return Estimate(float(correct.mean()), len(correct), *wilson(int(correct.sum()), len(correct)))


def _mean(values: np.ndarray, drawn: np.ndarray) -> Estimate:
    n = len(values)
    return Estimate(float(values.mean()), n, *bootstrap_interval(drawn @ values / n, n))


def _recall(rows: Scores, drawn: np.ndarray) -> Estimate:
    """Mean recall over the classes present; of one class it is that class's accuracy."""
    if rows.labels is None:
        return Estimate(NAN, len(rows), NAN, NAN)
    classes, row_class = np.unique(rows.labels, return_inverse=True)
    if len(classes) == 1:
        return _share(rows.correct)
    value, resampled = _mean_recall(rows.correct, row_class, drawn)
    return Estimate(value, len(rows), *percentiles(resampled))


def _mean_recall(
    correct: np.ndarray, row_class: np.ndarray, drawn: np.ndarray
) -> tuple[float, np.ndarray]:
    of_class = (row_class[:, None] == np.arange(row_class.max() + 1)).astype(np.float64)
    right = of_class * correct[:, None]
    value = float(np.mean(right.sum(0) / of_class.sum(0)))
    counts = drawn @ of_class
    per_class = np.divide(drawn @ right, counts, out=np.full_like(counts, NAN), where=counts > 0)
    present = np.isfinite(per_class)
    summed = np.where(present, per_class, 0.0).sum(1)
    return value, np.divide(summed, present.sum(1), out=np.full(len(summed), NAN),
                            where=present.any(1))  # fmt: skip


def _overall(
    rows: Scores, slices: SliceTable, tail_classes: Sequence[int],
    generator: np.random.Generator, min_n: int,
) -> dict[str, Estimate]:  # fmt: skip
    n = len(rows)
    if n == 0:
        return {metric: Estimate(NAN, 0, NAN, NAN) for metric in schema.METRICS_OVERALL}
    drawn = resample_weights(n, generator)
    tail = Estimate(NAN, 0, NAN, NAN)
    if rows.labels is not None and (in_tail := np.isin(rows.labels, list(tail_classes))).any():
        of_tail = rows.of(in_tail)
        tail = _recall(of_tail, resample_weights(len(of_tail), generator))
    return {
        "macro_accuracy": _recall(rows, drawn),
        "tail_worst": _worst(rows, slices, drawn, min_n),
        "tail_band": tail,
    }


def _worst(rows: Scores, slices: SliceTable, drawn: np.ndarray, min_n: int) -> Estimate:
    """Lowest accuracy over all slices of at least ``min_n`` examples, n being that slice's."""
    member = slices.membership.astype(np.float64)
    sizes = member.sum(0)
    large = np.flatnonzero(sizes >= max(min_n, 1))
    if len(large) == 0:
        return Estimate(NAN, 0, NAN, NAN)
    accuracy = (rows.correct @ member)[large] / sizes[large]
    counts = drawn @ member[:, large]
    resampled = np.divide(
        (drawn * rows.correct) @ member[:, large], counts,
        out=np.ones_like(counts), where=counts > 0,
    ).min(1)  # fmt: skip
    worst = int(np.argmin(accuracy))
    return Estimate(float(accuracy[worst]), int(sizes[large[worst]]), *percentiles(resampled))
