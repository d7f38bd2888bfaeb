"""Membership inference: scores of each example, and how well they tell members from others.

All scores grow with how likely an example is a member. A row is a model, a column an example.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

LEAST_SPREAD = 1e-6
LEAST_LOSS = 1e-300


def logit_scores(nll: Floats) -> Floats:
    """Return ln(p/(1 − p)) of probabilities p = e^−``nll``: near normal over models (Carlini et
    al., "Membership inference attacks from first principles", IEEE S&P 2022, section IV-B).
    """
    nll = np.maximum(np.asarray(nll, np.float64), LEAST_LOSS)
    return -nll - np.log(-np.expm1(-nll))


def lira(scores: Floats, member: Flags, *, online: bool) -> Floats:
    """Return the likelihood-ratio score of every model and example, the other models as its
    shadows; ``[models, examples]``, NaN where too few of them can say.

    ``scores`` are :func:`logit_scores` ``[models, examples]``, ``member`` says who was trained
    on what. Of each example one normal is fitted to the shadows trained on it and one to those that
    were not, with spreads that all examples share, for there are few shadows (ibid., section VI-C).
    ``online`` gives ln p(score | in) − ln p(score | out), otherwise Φ of the score among those out
    (offline: no shadow was trained on the target). Every model is left out of its own shadows.
    Raises ValueError for fewer than two models.
    """
    if scores.shape != member.shape or scores.ndim != 2 or len(scores) < 2:
        raise ValueError("scores and memberships of two models at least, [models, examples]")
    found = np.full(scores.shape, np.nan)
    for model in range(len(scores)):
        others = np.arange(len(scores)) != model
        out_mean, out_spread = _fit(scores[others], ~member[others])
        if not online:
            found[model] = special.ndtr((scores[model] - out_mean) / out_spread)
            continue
        in_mean, in_spread = _fit(scores[others], member[others])
        found[model] = stats.norm.logpdf(scores[model], in_mean, in_spread) - stats.norm.logpdf(
            scores[model], out_mean, out_spread
        )
    return found


@dataclass(frozen=True)
class Rate:
    """A figure with its 95 % interval; NaN where the examples cannot carry it."""

    value: float
    lo: float
    hi: float


NO_RATE = Rate(float("nan"), float("nan"), float("nan"))


def auc(scores: Floats, member: Flags, cluster: Integers | None = None) -> Rate:
    """Return the area under the ROC curve: how often a member scores above another, ties half.

    The interval is Obuchowski's (Biometrics 1997), on the logit scale: scores of one ``cluster``
    may depend on each other, as one example's do over models that are each other's shadows. None:
    each is one, which is DeLong's (Biometrics 1988). All ``[n]``. NaN without two of either kind.
    """
    known = ~np.isnan(scores)
    inside = member[known]
    if min(inside.sum(), (~inside).sum()) < 2:
        return NO_RATE
    names = None if cluster is None else cluster[known]
    area, variance = placements(scores[known], inside, names)
    if area in (0.0, 1.0) or variance == 0:
        return Rate(area, float("nan"), float("nan"))
    half = stats.norm.ppf(0.975) * variance**0.5 / (area * (1 - area))
    centre = special.logit(area)
    return Rate(area, float(special.expit(centre - half)), float(special.expit(centre + half)))


def placements(
    scores: Floats, member: Flags, cluster: Integers | None = None
) -> tuple[float, float]:
    """Return the area under the ROC curve and its variance by Obuchowski (ibid.); all ``[n]``.

    There must be a member and another; no score may be NaN.
    """
    inside, outside = scores[member], scores[~member]
    m, n = len(inside), len(outside)
    ranks = stats.rankdata(np.concatenate([inside, outside]))
    above = (ranks[:m] - stats.rankdata(inside)) / n
    below = 1 - (ranks[m:] - stats.rankdata(outside)) / m
    area = float(above.mean())
    names = np.arange(len(scores)) if cluster is None else cluster
    which, place = np.unique(names, return_inverse=True)
    # How far each cluster's members, and its others, lie from what the area says of so many.
    first = np.bincount(place[member], above - area, len(which)) / m
    second = np.bincount(place[~member], below - area, len(which)) / n
    return area, float(((first + second) ** 2).sum())


def true_positive_rate(scores: Floats, member: Flags, false_positives: float) -> Rate:
    """Return the share of members above the threshold that ``false_positives`` of others pass.

    The threshold is the least at which at most that share of the others is above; the interval is
    Clopper and Pearson's *given* that threshold. NaN where one other example alone is a larger
    share than that: there is no such threshold to be known.
    """
    inside, outside = _apart(scores, member)
    if not len(inside) or len(outside) * false_positives < 1:
        return NO_RATE
    passed = int(np.floor(len(outside) * false_positives))
    threshold = np.sort(outside)[::-1][passed] if passed < len(outside) else -np.inf
    hits = int((inside > threshold).sum())
    found = stats.binomtest(hits, len(inside)).proportion_ci(0.95, "exact")
    return Rate(hits / len(inside), float(found.low), float(found.high))


def _fit(scores: Floats, chosen: Flags) -> tuple[Floats, float]:
    """Return each example's mean over the ``chosen`` models ``[examples]`` (NaN for none), and the
    spread around it that all examples share.
    """
    count = chosen.sum(0)
    total = np.where(chosen, scores, 0.0).sum(0)
    mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    around = np.where(chosen & (count > 1), scores - mean, 0.0)
    freedom = int(np.maximum(count - 1, 0).sum())
    spread = float(np.sqrt((around**2).sum() / freedom)) if freedom else float("nan")
    return mean, max(spread, LEAST_SPREAD) if np.isfinite(spread) else spread


def _apart(scores: Floats, member: Flags) -> tuple[Floats, Floats]:
    known = ~np.isnan(scores)
    return scores[known & member], scores[known & ~member]
