"""What an audit of records says: losses of canaries or members, exposure, and attacks on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis import schema
from dpsgd.auditing.exposure import exposures, extrapolated
from dpsgd.auditing.fairness import Difference, auc_difference, mean_difference
from dpsgd.auditing.guesses import Guesses, guess
from dpsgd.auditing.membership import Rate, auc, true_positive_rate
from dpsgd.auditing.settings import CanaryAudit, MembershipAudit
from dpsgd.experiment.coins import RANDOM, Coins
from dpsgd.experiment.prepared import Prepared
from dpsgd.metrics.intervals import bootstrap_interval, resample_weights
from dpsgd.training.evaluate import losses as evaluated

FALSE_POSITIVES = {"tpr_at_1pct": 0.01, "tpr_at_01pct": 0.001}
Row = dict[str, Any]


@dataclass(frozen=True)
class Losses:
    """Losses in nats of every record that has a coin, and of the references by kind."""

    coins: Coins
    rows: np.ndarray
    nll: np.ndarray
    references: Mapping[str, np.ndarray]

    @property
    def kind(self) -> np.ndarray:
        """``[coins]`` what each was made into."""
        return self.coins.kind[self.rows]

    @property
    def included(self) -> np.ndarray:
        """``[coins]`` bool."""
        return self.coins.included[self.rows]


def losses_of(prepared: Prepared, coins: Coins) -> Losses:
    """Return the trained model's losses of all records with a coin, included or not."""
    device, bundle = prepared.cell.settings.device, prepared.bundle
    train = evaluated(prepared.model, bundle.train, device, bundle.task)
    references = {
        kind: evaluated(prepared.model, split, device, bundle.task)
        for kind, split in coins.references.items()
    }
    rows = np.flatnonzero(coins.flipped)
    return Losses(coins, rows, train[rows], references)


def record_rows(losses: Losses, example: np.ndarray) -> list[Row]:
    """Return rows of ``schema.AUDIT``: every coin, with the loss and the score of its record."""
    columns = losses.coins.slices.columns()
    label = columns.get("label", [None] * len(losses.coins.kind))
    return [
        {
            "canary": int(row), "kind": str(kind), "slice": label[row], "included": bool(coin),
            "score": float(-nll), "nll": float(nll), "example": str(example[row]),
            "release": "private",
        }
        for row, kind, coin, nll in zip(
            losses.rows, losses.kind, losses.included, losses.nll, strict=True
        )
    ]  # fmt: skip


def record_metrics(losses: Losses, generator: np.random.Generator) -> Iterator[Row]:
    """Yield rows of ``schema.CELL_METRICS`` of split ``audit``: exposure and attacks, by kind of
    canary and by slice, with 95 % intervals; null where too few records can say.
    """
    bits = _exposures(losses) if losses.references else {}
    for kind, name, chosen in _subsets(losses):
        inside = chosen & losses.included
        for metric, values in bits.items():
            yield _mean(kind, name, metric, values[inside], generator)
        score, member = -losses.nll[chosen], losses.included[chosen]
        rates = {"membership_auc": auc(score, member)} | {
            metric: true_positive_rate(score, member, share)
            for metric, share in FALSE_POSITIVES.items()
        }
        for metric, rate in rates.items():
            yield _row(kind, name, metric, rate, int(chosen.sum()))
        others = ~chosen if kind == schema.CANARY else ~chosen & (losses.kind != RANDOM)
        if not chosen.all():
            yield from _gaps(losses, bits, (kind, name, chosen, others), generator)


def record_guesses(losses: Losses, audit: CanaryAudit | MembershipAudit) -> Guesses:
    """Return how many of the surest coins a threshold on the loss guesses right."""
    made = max(1, round(audit.guesses * len(losses.rows)))
    return guess(-losses.nll, losses.included, made)


def _gaps(
    losses: Losses,
    bits: Mapping[str, np.ndarray],
    of: tuple[str, str, np.ndarray, np.ndarray],
    generator: np.random.Generator,
) -> Iterator[Row]:
    """Yield how a slice differs from the others, whatever their numbers."""
    kind, name, chosen, others = of
    if "exposure" in bits:
        own, rest = (bits["exposure"][side & losses.included] for side in (chosen, others))
        gap = mean_difference(own, rest, generator)
        yield _row(kind, name, "exposure_gap", gap, int(np.isfinite(own).sum()))
    gap = auc_difference(-losses.nll, losses.included, chosen, others)
    yield _row(kind, name, "membership_auc_gap", gap, int(chosen.sum()))


def _exposures(losses: Losses) -> dict[str, np.ndarray]:
    """Return exposures in bits ``[coins]``, by rank and by extrapolation."""
    ranked = np.full(len(losses.rows), np.nan)
    fitted = ranked.copy()
    for kind, references in losses.references.items():
        own = losses.kind == kind
        ranked[own] = exposures(losses.nll[own], references)
        fitted[own] = extrapolated(losses.nll[own], references)
    return {"exposure": ranked, "exposure_extrapolated": fitted}


def _subsets(losses: Losses) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield kind, name and members of the kinds of canaries, and of the slices of the records.

    A random input is of no slice any more, whatever it was made of: were it counted there, slices
    whose canaries are of other kinds would be compared by their kinds.
    """
    for name in sorted(set(losses.kind)):
        yield schema.CANARY, str(name), losses.kind == name
    membership = losses.coins.slices.membership[losses.rows]
    for (kind, name), chosen in zip(losses.coins.slices.keys, membership.T, strict=True):
        yield kind, name, chosen if kind == "all" else chosen & (losses.kind != RANDOM)


def _mean(
    kind: str, name: str, metric: str, values: np.ndarray, generator: np.random.Generator
) -> Row:
    values = values[np.isfinite(values)]
    n = len(values)
    if not n:
        return _row(kind, name, metric, Rate(np.nan, np.nan, np.nan), 0)
    lo, hi = bootstrap_interval(resample_weights(n, generator) @ values / n, n)
    return _row(kind, name, metric, Rate(float(values.mean()), lo, hi), n)


def _row(kind: str, name: str, metric: str, rate: Rate | Difference, n: int) -> Row:
    return {
        "split": schema.AUDIT_SPLIT, "slice_kind": kind, "slice": name, "metric": metric,
        "value": rate.value, "n": n, "lo": rate.lo, "hi": rate.hi, "release": "private",
    }  # fmt: skip
