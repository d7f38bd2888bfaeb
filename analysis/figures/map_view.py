"""What the map shows, as arrays and words: families of rows, columns, panels. Draws nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.conditions import conditions
from analysis.figures.notes import Notes
from analysis.figures.panels import Cells, Panel, clip_fraction, ece, kept, on_one_scale, recall
from analysis.slices import SliceColumn, slice_columns
from analysis.table import unpaired
from analysis.wording import counted, epsilon_text

_MECHANISMS = {"clip_only": "clip only", "noise_only": "noise only", "neither": "no clip, no noise"}


@dataclass(frozen=True)
class MapRow:
    """A condition: ``group`` and ``note`` are shared by neighbours, ``label`` is its own.

    ``detail`` holds the settings that tell it from other rows, as far as there is room for them.
    """

    group: str
    note: str
    label: str
    detail: str
    part: str


@dataclass(frozen=True)
class Family:
    """Conditions on the same data and model, with slices, a tail and panels of their own.

    ``heading`` holds what is told of all of them, ``key=value``; ``row_seeds`` is ``[rows]``.
    """

    heading: tuple[str, ...]
    rows: tuple[MapRow, ...]
    columns: tuple[SliceColumn, ...]
    panels: tuple[Panel, ...]
    row_seeds: np.ndarray


@dataclass(frozen=True)
class MapView:
    """Everything that is drawn; ``notes`` are the settings that rows had no room for, in full.

    ``alike`` holds by part (baseline, private, diagnostic) the settings of all its rows, which are
    said once and not beside every row.
    """

    families: tuple[Family, ...]
    notes: tuple[str, ...]
    alike: Mapping[str, tuple[str, ...]]

    @property
    def spread(self) -> bool:
        """Whether any tile has a spread over seeds."""
        panels = [panel for family in self.families for panel in family.panels]
        return any(np.isfinite(panel.sd).any() for panel in panels)

    @property
    def row_seeds(self) -> np.ndarray:
        """Number of seeds of every row, family by family."""
        return np.concatenate([family.row_seeds for family in self.families])


def map_view(table: pd.DataFrame) -> MapView:
    """Arrange the cells of one data set and model as families, rows, slices and panels.

    Raises ``ValueError``: no rows, or cells of more than one data set or model.
    """
    _one_setting(table)
    named = conditions(table)
    seeds = named.groupby("condition").agg(seeds=("replicate", "nunique"))["seeds"].to_numpy()
    first = _rows_of(named)
    alike = _alike(first)
    first = first.assign(settings=[
        tuple(word for word in words if word not in alike.get(part, ()))
        for part, words in zip(first["part"], first["settings"], strict=True)
    ])  # fmt: skip
    notes = Notes(Counter(word for words in first["settings"] for word in words))
    rows = _rows(first, seeds, notes)
    families = [
        _family(table, named, part, rows, seeds) for _, part in named.groupby("family", sort=True)
    ]
    panels = iter(on_one_scale([panel for family in families for panel in family.panels]))
    families = [
        replace(family, panels=tuple(next(panels) for _ in family.panels)) for family in families
    ]
    return MapView(tuple(families), notes.in_full(), alike)


def _alike(first: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return by part the settings that all its rows share; one row, but for a baseline, keeps its
    own beside it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part, rows in first.groupby("part", sort=False):
        every = list(rows["settings"])
        if len(every) > 1 or part == "baseline":
            shared = [word for word in every[0] if all(word in words for words in every)]
            found[str(part)] = tuple(shared)
    return {part: words for part, words in found.items() if words}


def _one_setting(table: pd.DataFrame) -> None:
    found = table[["data", "model"]].drop_duplicates()
    if len(found) != 1:
        pairs = "; ".join(f"{data}, {model}" for data, model in found.itertuples(index=False))
        raise ValueError(f"a map needs cells of one data set and one model, not {pairs or 'none'}")


def _rows_of(named: pd.DataFrame) -> pd.DataFrame:
    return named.drop_duplicates("condition")


def _family(
    table: pd.DataFrame,
    named: pd.DataFrame,
    part: pd.DataFrame,
    rows: Sequence[MapRow],
    seeds: np.ndarray,
) -> Family:
    keys = list(part["run_key"])
    places = [int(condition) for condition in _rows_of(part)["condition"]]
    columns = tuple(slice_columns(table.loc[table["run_key"].isin(keys), :]))
    plain = np.array([rows[place].part == "baseline" for place in places])
    cells = Cells(table, named, columns, places, plain)
    without = len(set(unpaired(table)) & set(keys))
    return Family(
        heading=part["heading"].iloc[0],
        rows=tuple(rows[place] for place in places),
        columns=columns,
        panels=(*_of_training(cells), recall(cells, without), *_of_confidence(cells)),
        row_seeds=seeds[places],
    )


def _of_training(cells: Cells) -> tuple[Panel, ...]:
    """Return kept and clip fraction; without kept where only clip fractions were counted."""
    panels = kept(cells), clip_fraction(cells)
    some = [np.isfinite(panel.mean[~cells.plain]).any() for panel in panels]
    return panels[1:] if some == [False, True] else panels


def _of_confidence(cells: Cells) -> tuple[Panel, ...]:
    """Return ECE; nothing where no cell has a value."""
    panel = ece(cells)
    return (panel,) if np.isfinite(panel.mean).any() else ()


def _rows(first: pd.DataFrame, row_seeds: np.ndarray, notes: Notes) -> list[MapRow]:
    private = first["part"] == "private"
    several = first.loc[private, "shown_epsilon"].nunique(dropna=False) > 1
    usual = np.bincount(row_seeds).argmax()
    rows: list[MapRow] = []
    for condition, seeds in zip(first.to_dict("records"), row_seeds, strict=True):
        group, note = _group(condition, several)
        detail = notes.short(
            condition["settings"], "" if seeds == usual else counted(seeds, "seed")
        )
        clip_norm = condition["clip_norm"]
        label = "" if math.isnan(clip_norm) else f"C = {clip_norm:g}"
        rows.append(MapRow(group, note, label, detail, condition["part"]))
    return rows


def _group(condition: Mapping[Hashable, Any], several: bool) -> tuple[str, str]:
    part, rule = condition["part"], condition["rule"]
    if part == "baseline":
        return "baseline", "not private"
    if part == "private":
        return rule, epsilon_text(condition["shown_epsilon"]) if several else ""
    what = _MECHANISMS.get(condition["mechanism"], "no guarantee")
    return f"{rule}, {what}", "diagnostic, not private"
