"""The heat maps as arrays: kept, clip fraction, recall against the baseline, and ECE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.colors import Colormap

from analysis import schema, style
from analysis.slices import SliceColumn
from analysis.table import against_baseline, over_seeds
from analysis.wording import counted

_RECALL_LEVEL = ("recall", "test", "value")
_RECALL_CHANGE = ("recall", "test", "difference")


@dataclass(frozen=True)
class Panel:
    """A heat map. ``mean``, ``sd`` and ``seeds`` are ``[rows, columns]``; NaN is "no value". Of a
    noised mean, ``sd`` is half its 95 % interval under that noise.

    ``plain`` rows are printed without colour, for they are not on the scale ``limits``.
    """

    title: str
    about: str
    dark: str
    mean: np.ndarray
    sd: np.ndarray
    seeds: np.ndarray
    plain: np.ndarray
    cmap: Colormap
    limits: tuple[float, float]
    signed: bool

    @property
    def above(self) -> np.ndarray:
        """Tiles whose value is above the scale, ``[rows, columns]``: they have its last colour."""
        return (self.mean > self.limits[1]) & ~self.plain[:, None]


@dataclass(frozen=True)
class Cells:
    """The cells of a map: ``named`` by ``conditions``, of which ``rows`` are drawn.

    ``plain`` marks the baselines among them.
    """

    table: pd.DataFrame
    named: pd.DataFrame
    columns: Sequence[SliceColumn]
    rows: Sequence[int]
    plain: np.ndarray

    def arrays(self, metric: str, split: str, column: str) -> tuple[np.ndarray, ...]:
        """Return mean, sd and seeds of ``column``, each ``[rows, columns]``."""
        # What stood in for the training records is in the place of theirs: no run has both.
        splits = [split, schema.PROBE] if split == "train" else [split]
        chosen = (self.table["metric"] == metric) & self.table["split"].isin(splits)
        own = self.named.loc[self.named["condition"].isin(list(self.rows)), "run_key"]
        rows = self.table.loc[chosen & self.table["run_key"].isin(list(own))]
        if column == "difference":
            rows = against_baseline(rows, self.table)
        found = over_seeds(rows, self.named, column).set_index(["condition", "slice_kind", "slice"])
        every = [(row, column.kind, column.name) for row in self.rows for column in self.columns]
        filled = found[["mean", "sd", "seeds"]].reindex(pd.MultiIndex.from_tuples(every))
        values = filled.to_numpy(float).reshape(len(self.plain), len(self.columns), 3)
        return values[..., 0], values[..., 1], np.nan_to_num(values[..., 2])


def kept(cells: Cells) -> Panel:
    """Return the share of the gradient norm that was left after clipping.

    Weights can exceed 1, as those of ``automatic`` do, and then a slice keeps more than all: its
    scale ends at 1 all the same, or what clipping took would be one colour.
    """
    mean, sd, seeds = cells.arrays("kept", "train", "value")
    return Panel(
        title="Kept",
        about="share of the gradient norm that was left after clipping, over the whole training",
        dark="dark: little kept",
        mean=mean,
        sd=sd,
        seeds=seeds,
        plain=cells.plain,
        cmap=style.SURVIVING,
        limits=(0.0, min(1.0, _reach(mean[~cells.plain]))),
        signed=False,
    )


def clip_fraction(cells: Cells) -> Panel:
    """Return the share of units that were clipped in any clip group."""
    mean, spread, seeds = cells.arrays("clip_fraction", "train", "value")
    half = noise_of_mean(cells)
    sd = np.where(np.isfinite(half), half, spread)
    return Panel(
        title="Clip fraction",
        about="share of the units that were clipped at all, over the whole training",
        dark="dark: most clipped",
        mean=mean,
        sd=sd,
        seeds=seeds,
        plain=cells.plain,
        cmap=style.LOST,
        limits=(0.0, 1.0),
        signed=False,
    )


def noise_of_mean(cells: Cells) -> np.ndarray:
    """Return half the 95 % interval of the mean clip fraction over seeds, from that of every seed,
    ``[rows, columns]``; NaN where the fractions were not noised.
    """
    table = cells.table
    told = (table["release"] == "accounted") & table["value"].notna()
    square = (((table["hi"] - table["lo"]) / 2) ** 2).where(told)
    noised = replace(cells, table=table.assign(square=square))
    mean, _, seeds = noised.arrays("clip_fraction", "train", "square")
    return np.sqrt(mean / np.where(seeds > 0, seeds, np.nan))


def recall(cells: Cells, without: int) -> Panel:
    """Return recall minus baseline recall; recall itself where there is nothing to compare with.

    ``without`` is the number of cells whose baseline is not in the table.
    """
    level = cells.arrays(*_RECALL_LEVEL)
    change = cells.arrays(*_RECALL_CHANGE)
    compared = change[0][~cells.plain]
    if not np.isfinite(compared).any():
        return Panel(
            title="Recall (no baseline)",
            about="test split; no cell here has a baseline to compare with: not a difference",
            dark="dark: low recall",
            mean=level[0],
            sd=level[1],
            seeds=level[2],
            plain=np.zeros_like(cells.plain),
            cmap=style.SURVIVING,
            limits=(0.0, 1.0),
            signed=False,
        )
    mean, sd, seeds = (_rows_of(cells.plain, a, b) for a, b in zip(level, change, strict=True))
    but = f"; without {counted(without, 'cell')} that had no finished baseline" if without else ""
    reach = max(0.2, _reach(np.abs(compared)))  # a change of .01 must not look like a loss
    return Panel(
        title="Recall − baseline recall",
        about=f"test split, minus the baseline of the same seed, whose row is recall itself{but}",
        dark="dark: recall lost",
        mean=mean,
        sd=sd,
        seeds=seeds,
        plain=cells.plain,
        cmap=style.CHANGE,
        limits=(-reach, reach),
        signed=True,
    )


def ece(cells: Cells) -> Panel:
    """Return the expected calibration error, also of the baselines: they are on its scale."""
    mean, sd, seeds = cells.arrays("ece", "test", "value")
    return Panel(
        title="ECE",
        about="expected calibration error, test split, of confidence in bins; of few examples it is"
        " above zero however well a model is calibrated (figure calibration shows by how much)",
        dark="dark: large error",
        mean=mean,
        sd=sd,
        seeds=seeds,
        plain=np.zeros_like(cells.plain),
        cmap=style.LOST,
        limits=(0.0, _reach(mean)),
        signed=False,
    )


def on_one_scale(panels: Sequence[Panel]) -> list[Panel]:
    """Return panels of one title with the widest of their limits, so that colours compare."""
    widest: dict[str, tuple[float, float]] = {}
    for panel in panels:
        if np.isfinite(panel.mean[~panel.plain]).any():  # else its limits say nothing
            low, high = widest.get(panel.title, panel.limits)
            widest[panel.title] = (min(low, panel.limits[0]), max(high, panel.limits[1]))
    return [replace(panel, limits=widest.get(panel.title, panel.limits)) for panel in panels]


def _rows_of(plain: np.ndarray, level: np.ndarray, change: np.ndarray) -> np.ndarray:
    return np.where(plain[:, None], level, change)


def _reach(values: np.ndarray) -> float:
    """Return the largest value, up to the next tenth, for a scale that starts at zero."""
    finite: list[float] = values[np.isfinite(values)].tolist()
    return max(0.1, math.ceil(max(finite, default=1.0) * 10 - 1e-9) / 10)
