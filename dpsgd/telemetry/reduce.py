"""From the norms and weights of a window of steps to figures by slice and clip group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis import schema
from dpsgd.telemetry.recorder import Row, SliceKeys


@dataclass(frozen=True)
class Reduced:
    """Sums over a window's units. The last group is ``all``: clipped in any, the joint norm.

    Shapes: ``units`` [slices]; ``clipped``, ``before``, ``after`` [slices, groups + 1];
    ``before_quantiles``, ``after_quantiles`` [quantiles, slices, groups + 1], NaN without units.
    """

    units: np.ndarray
    clipped: np.ndarray
    before: np.ndarray
    after: np.ndarray
    before_quantiles: np.ndarray
    after_quantiles: np.ndarray

    def overall_clip_fraction(self) -> float | None:
        """Return the clip fraction of slice all, or None for a window without units."""
        return float(self.clipped[0, -1] / self.units[0]) if self.units[0] else None


# A weight is below 1 by the safety factor of the step even where nothing was clipped.
_WHOLE = 1 - 2e-5


def reduce_window(norms: np.ndarray, weights: np.ndarray, membership: np.ndarray) -> Reduced:
    """Reduce ``[units, groups]`` norms and weights over the slices of ``[units, slices]``."""
    after = norms * weights
    clipped = (weights < _WHOLE) & (norms > 0)
    norms = np.column_stack([norms, np.linalg.norm(norms, axis=1)])
    after = np.column_stack([after, np.linalg.norm(after, axis=1)])
    clipped = np.column_stack([clipped, clipped.any(axis=1)])
    member = membership.astype(np.float64)
    quantiles = _quantiles(np.column_stack([norms, after]), membership)
    return Reduced(
        units=member.sum(0).astype(np.int64),
        clipped=member.T @ clipped,
        before=member.T @ norms,
        after=member.T @ after,
        before_quantiles=quantiles[:, :, : norms.shape[1]],
        after_quantiles=quantiles[:, :, norms.shape[1] :],
    )


def _quantiles(values: np.ndarray, membership: np.ndarray) -> np.ndarray:
    """Return ``[quantiles, slices, columns]``, linear between units; NaN for a slice without."""
    slices = membership.shape[1]
    result = np.full((len(schema.QUANTILES), slices, values.shape[1]), np.nan)
    shares = np.array(schema.QUANTILES) / 100
    for i in range(slices):
        chosen = np.sort(values[membership[:, i]], axis=0)
        if len(chosen):  # as np.quantile does, at a tenth of its overhead
            place = shares * (len(chosen) - 1)
            below = place.astype(np.int64)
            above = np.minimum(below + 1, len(chosen) - 1)
            part = (place - below)[:, np.newaxis]
            result[:, i] = chosen[below] + part * (chosen[above] - chosen[below])
    return result


def window_rows(
    reduced: Reduced, unit: str, step: int, groups: tuple[str, ...], keys: SliceKeys
) -> list[Row]:
    """Return one row for every slice, clip group and statistic of a window."""
    columns = [(g, name) for g, name in enumerate(groups) if name != schema.GROUP_ALL]
    columns.append((len(groups), schema.GROUP_ALL))
    rows: list[Row] = []
    for i, (kind, name) in enumerate(keys):
        n = int(reduced.units[i])
        if n == 0:
            continue
        for g, group in columns:
            stats = {
                "units": float(n),
                "clip_fraction": reduced.clipped[i, g] / n,
                "kept": reduced.after[i, g] / reduced.before[i, g]
                if reduced.before[i, g]
                else None,
            }
            for q, percent in enumerate(schema.QUANTILES):
                stats[f"norm_before_q{percent}"] = reduced.before_quantiles[q, i, g]
                stats[f"norm_after_q{percent}"] = reduced.after_quantiles[q, i, g]
            rows += [
                {"step": step, "unit": unit, "slice_kind": kind, "slice": name, "group": group,
                 "stat": stat, "value": value, "n": n, "release": "private"}
                for stat, value in stats.items()
            ]  # fmt: skip
    return rows


def total_rows(sums: Sequence[Reduced], keys: SliceKeys, split: str, release: str) -> list[Row]:
    """Return clip fraction and kept of every slice over all windows, over the joint norm."""
    if not sums:
        return []
    units = np.sum([r.units for r in sums], axis=0)
    clipped = np.sum([r.clipped[:, -1] for r in sums], axis=0)
    before = np.sum([r.before[:, -1] for r in sums], axis=0)
    after = np.sum([r.after[:, -1] for r in sums], axis=0)
    rows: list[Row] = []
    for i, (kind, name) in enumerate(keys):
        some = units[i] > 0
        values = {
            "clip_fraction": clipped[i] / units[i] if some else None,
            "kept": after[i] / before[i] if some and before[i] > 0 else None,
        }
        rows += [
            {"split": split, "slice_kind": kind, "slice": name, "metric": metric,
             "value": value, "n": int(units[i]), "lo": None, "hi": None, "release": release}
            for metric, value in values.items()
        ]  # fmt: skip
    return rows
