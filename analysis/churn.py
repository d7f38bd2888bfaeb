"""Churn: how often two seeds disagree on an example, by slice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.membership import membership
from analysis.slices import SliceColumn

_DRAWS = 400


def churn(
    predictions: pd.DataFrame, keys: Sequence[str], columns: Sequence[SliceColumn]
) -> pd.DataFrame:
    """Return for every slice the share of examples on which two runs predict another class, the
    mean over all pairs of ``keys``.

    Columns ``churn``, ``lo``, ``hi`` (95 %, a bootstrap over examples), ``n`` (examples that every
    run predicted) and ``pairs``. NaN for fewer than two runs and for a slice without examples.
    """
    own = predictions.loc[predictions["run_key"].isin(list(keys)), :]
    wide = own.pivot(index="example", columns="run_key", values="predicted").dropna()
    pairs = list(combinations(range(wide.shape[1]), 2))
    if not pairs or wide.empty:
        nothing = [float("nan")] * len(columns)
        return pd.DataFrame(
            {"churn": nothing, "lo": nothing, "hi": nothing, "n": 0, "pairs": len(pairs)}
        )
    classes = wide.to_numpy()
    differs = np.mean([classes[:, a] != classes[:, b] for a, b in pairs], axis=0)
    of_example = own.drop_duplicates("example").set_index("example").loc[wide.index]
    rows = [_of_slice(differs[inside]) for inside in membership(of_example, columns).T]
    found = pd.DataFrame(rows, columns=["churn", "lo", "hi", "n"])
    return found.assign(pairs=len(pairs))


def _of_slice(differs: np.ndarray) -> tuple[float, float, float, int]:
    n = len(differs)
    if n == 0:
        return float("nan"), float("nan"), float("nan"), 0
    if n == 1:
        return float(differs[0]), float("nan"), float("nan"), 1
    draws = np.random.default_rng(0).integers(0, n, (_DRAWS, n))
    lo, hi = np.percentile(differs[draws].mean(axis=1), (2.5, 97.5))
    return float(differs.mean()), float(lo), float(hi), n
