"""Reliability: accuracy against confidence, in bins, with an interval by a bootstrap."""

from __future__ import annotations

import numpy as np
import pandas as pd

BINS = 10
_DRAWS = 400
_FEWEST = 5


def reliability(predictions: pd.DataFrame, bins: int = BINS) -> pd.DataFrame:
    """Return one row a bin of confidence, ((b−1)/B, b/B], over all runs of ``predictions``.

    Columns: ``confidence`` and ``accuracy``, means of the predictions in the bin; ``lo``, ``hi``,
    the 95 % interval of accuracy, by a bootstrap over examples (the runs share them); ``n``,
    predictions, and ``examples``, different examples. Empty bins have NaN and n = 0; an interval
    needs 5 examples.
    """
    examples, place = np.unique(predictions["example"].to_numpy(), return_inverse=True)
    confidence = predictions["confidence"].to_numpy(float)
    correct = (predictions["predicted"] == predictions["label"]).to_numpy(float)
    edges = np.arange(1, bins) / bins
    of_bin = np.searchsorted(edges, confidence, side="left")
    sums = np.zeros((3, len(examples), bins))
    for row, weight in enumerate((np.ones_like(confidence), confidence, correct)):
        np.add.at(sums[row], (place, of_bin), weight)
    n, sure, right = sums.sum(axis=1)
    within = (sums[0] > 0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        lo, hi = _interval(sums[0], sums[2], within)
        return pd.DataFrame(
            {"confidence": sure / n, "accuracy": right / n, "lo": lo, "hi": hi,
             "n": n.astype(int), "examples": within}
        )  # fmt: skip


def _interval(
    number: np.ndarray, right: np.ndarray, within: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    nothing = np.full(number.shape[1], np.nan)
    if len(number) < _FEWEST:
        return nothing, nothing
    generator = np.random.default_rng(0)
    weights = generator.multinomial(len(number), np.full(len(number), 1 / len(number)), _DRAWS)
    drawn = (weights @ right) / (weights @ number)
    enough = within >= _FEWEST
    lo, hi = nothing.copy(), nothing.copy()
    lo[enough], hi[enough] = np.nanpercentile(drawn[:, enough], (2.5, 97.5), axis=0)
    return lo, hi
