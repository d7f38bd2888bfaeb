"""The words below the map: what protects whom, how many seeds, and what the tiles are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis import schema
from analysis.cells import one_row_each
from analysis.conditions import conditions, named_cells
from analysis.figures.map_view import MapView
from analysis.figures.page import framed
from analysis.figures.sentences import joined, learning_rate, privacy, setting, tested
from analysis.lettering import one_line
from analysis.settings import of_baselines
from analysis.slices import declared_rare, rare_below
from analysis.wording import plain_number

_OTHERS = "Rows marked not private have no guarantee (ε = ∞)"

_PARTS = {"baseline": "Baselines", "private": "Every private row",
          "diagnostic": "Every diagnostic"}  # fmt: skip
_RELEASES = {
    "private": "diagnostic, not private",
    "accounted": "noised, and inside ε",
    "public": "public",
}


def caption(table: pd.DataFrame, view: MapView) -> str:
    """Return the caption as sentences. Every ε comes with its accountant, δ and unit."""
    cells = one_row_each(table)
    sentences = [
        "Rows: clipping rule and threshold C; columns: slices of the data",
        setting(cells),
        privacy(cells, conditions(table), _OTHERS),
        _seeds(view),
        _pairs(view),
        _baselines(table),
        *(
            f"{_PARTS[part]}: {', '.join(map(one_line, words))}"
            for part, words in view.alike.items()
        ),
        learning_rate(cells),
        _telemetry(table),
        tested(table),
        _tail(table, view),
        _holes(view),
    ]
    return joined(sentences)


def _seeds(view: MapView) -> str:
    low, high = int(view.row_seeds.min()), int(view.row_seeds.max())
    if high == 1:
        return "Tiles: 1 seed, so no spread is shown"
    stated = f"{low}–{high}" if low < high else f"{high}"
    sentence = f"Tiles: mean over {stated} seeds, below it ± standard deviation"
    if _fewer(view):
        sentence += "; (k) where only k seeds have a value"
    return sentence


def _fewer(view: MapView) -> bool:
    return any(
        ((panel.seeds > 0) & (panel.seeds < family.row_seeds[:, None])).any()
        for family in view.families
        for panel in family.panels
    )


def _pairs(view: MapView) -> str:
    if not any(panel.signed for family in view.families for panel in family.panels):
        return ""
    return (
        "A cell and its baseline, the one of the same seed, share initial weights and test"
        " examples; batches and noise are each run's own"
    )


def _baselines(table: pd.DataFrame) -> str:
    pairs = of_baselines(named_cells(table))
    if not pairs:
        return ""
    own, others = (", ".join(words) for words in zip(*pairs, strict=True))
    return f"Baselines have {own}; all other rows {others}"


def _telemetry(table: pd.DataFrame) -> str:
    rows = table.loc[table["metric"].isin(["kept", "clip_fraction"]), :]
    private = rows["private"].fillna(value=False).astype(bool)
    # A baseline's numbers are always raw: they say nothing of those beside it.
    rows = rows.loc[private, :] if private.any() else rows
    parts = {text: rows.loc[rows["release"] == name, :] for name, text in _RELEASES.items()}
    found = [_what(part, text) for text, part in parts.items() if len(part)]
    return ". ".join(found)


def _what(rows: pd.DataFrame, text: str) -> str:
    names = " and ".join(
        word
        for word, metric in (("kept", "kept"), ("clip fraction", "clip_fraction"))
        if metric in set(rows["metric"])
    )
    probed = set(rows["split"]) == {schema.PROBE}
    told = f"{names[0].upper()}{names[1:]}{' of validation examples' if probed else ''}: {text}"
    intervals = (rows["release"] == "accounted") & rows["lo"].notna() & rows["value"].notna()
    half = "; below the number ± half its 95 % interval under that noise"
    return told + half if np.any(intervals.to_numpy()) else told


def _tail(table: pd.DataFrame, view: MapView) -> str:
    tails = [column for family in view.families for column in family.columns if column.tail]
    if not tails:
        return ""
    reasons = ["the rarest band"] if any(column.kind == "rarity" for column in tails) else []
    reasons += _rare_labels(table) if any(column.kind == "label" for column in tails) else []
    of_one = f": {framed(tails)}" if len(view.families) == 1 else ""
    return f"Framed: the tail ({' and '.join(reasons)}){of_one}"


def _rare_labels(table: pd.DataFrame) -> list[str]:
    named = conditions(table)
    found: dict[str, None] = {}
    for _, part in named.groupby("family"):
        own = table.loc[table["run_key"].isin(list(part["run_key"])), :]
        if declared_rare(own):
            share = plain_number(rare_below(own))
            found[f"labels of which training keeps a share below {share}"] = None
        else:
            found["labels with at most half of the median label's training examples"] = None
    return [" or ".join(found)]


def _holes(view: MapView) -> str:
    empty = any(np.isnan(panel.mean).any() for family in view.families for panel in family.panels)
    return "Hatched (–): no value, or too few examples for one" if empty else ""
