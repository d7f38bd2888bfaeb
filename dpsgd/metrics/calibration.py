"""Expected calibration error, and what a calibrated model of the same size would show."""

from __future__ import annotations

import numpy as np


def bin_index(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Return each confidence's bin: ((b−1)/B, b/B] for b = 1 … B, counted from 0.

    The first bin holds 0.0 too and the last 1.0, so that no confidence falls into none. Compared
    with the edges rather than multiplied by ``bins``: of 25 bins, 7/25 · 25 comes out above 7.
    """
    return np.searchsorted(np.arange(1, bins) / bins, confidence, side="left")


def ece(confidence: np.ndarray, correct: np.ndarray, bins: int = 15) -> float:
    """Return Σ_b (n_b/n)·|accuracy_b − confidence_b| (Guo et al., ICML 2017, equation 3).

    ``confidence`` and ``correct`` are ``[n]``; NaN for n = 0.
    """
    return float(ece_of_draws(confidence, correct[None], bins)[0])


def ece_of_draws(confidence: np.ndarray, correct: np.ndarray, bins: int = 15) -> np.ndarray:
    """Return the ECE ``[draws]`` of every row of ``correct`` ``[draws, n]``; NaN for n = 0."""
    if len(confidence) == 0:
        return np.full(len(correct), np.nan)
    one_hot = bin_index(confidence, bins)[:, None] == np.arange(bins)
    gaps = (correct - confidence) @ one_hot.astype(np.float64)
    return np.abs(gaps).sum(1) / len(confidence)


def ece_calibrated(
    confidence: np.ndarray, generator: np.random.Generator, draws: int = 200, bins: int = 15
) -> np.ndarray:
    """Return ``draws`` ECEs of a perfectly calibrated model with these confidences: its labels are
    right with just these probabilities. Their mean is what an ECE of this n is to be read beside.
    """
    correct = generator.random((draws, len(confidence))) < confidence
    return ece_of_draws(confidence, correct, bins)
