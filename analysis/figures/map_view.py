"""What the map shows, as arrays and words: rows, columns and three panels. Draws nothing."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.conditions import conditions
from analysis.figures.panels import Cells, Panel, clip_fraction, kept, recall
from analysis.slices import SliceColumn, slice_columns
from analysis.table import unpaired
from analysis.wording import counted, epsilon_text

_MECHANISMS = {"clip_only": "clip only", "noise_only": "noise only", "neither": "no clip, no noise"}


@dataclass(frozen=True)
class MapRow:
    """A condition: ``group`` and ``note`` are shared by neighbours, ``label`` is its own."""

    group: str
    note: str
    label: str
    detail: str
    part: str


@dataclass(frozen=True)
class MapView:
    """Everything that is drawn; ``row_seeds`` is ``[rows]``."""

    rows: tuple[MapRow, ...]
    columns: tuple[SliceColumn, ...]
    panels: tuple[Panel, ...]
    row_seeds: np.ndarray

    @property
    def spread(self) -> bool:
        """Whether any tile has a spread over seeds."""
        return any(np.isfinite(panel.sd).any() for panel in self.panels)


def map_view(table: pd.DataFrame) -> MapView:
    """Arrange the cells of one data set and model as rows, slices and panels.

    Raises ``ValueError``: no rows, or cells of more than one data set or model.
    """
    _one_setting(table)
    named = conditions(table)
    columns = slice_columns(table)
    first = named.drop_duplicates("condition")
    row_seeds = named.groupby("condition").agg(seeds=("replicate", "nunique"))["seeds"].to_numpy()
    rows = _rows(first, row_seeds)
    plain = np.array([row.part == "baseline" for row in rows])
    cells = Cells(table, named, columns, plain)
    return MapView(
        rows=tuple(rows),
        columns=tuple(columns),
        panels=(kept(cells), clip_fraction(cells), recall(cells, len(unpaired(table)))),
        row_seeds=row_seeds,
    )


def _one_setting(table: pd.DataFrame) -> None:
    found = table[["data", "model"]].drop_duplicates()
    if len(found) != 1:
        pairs = "; ".join(f"{data}, {model}" for data, model in found.itertuples(index=False))
        raise ValueError(f"a map needs cells of one data set and one model, not {pairs or 'none'}")


def _rows(first: pd.DataFrame, row_seeds: np.ndarray) -> list[MapRow]:
    private = first["part"] == "private"
    several = first.loc[private, "shown_epsilon"].nunique(dropna=False) > 1
    usual = np.bincount(row_seeds).argmax()
    rows: list[MapRow] = []
    for condition, seeds in zip(first.to_dict("records"), row_seeds, strict=True):
        group, note = _group(condition, several)
        details = [condition["settings"]] if condition["settings"] else []
        if seeds != usual:
            details.append(counted(int(seeds), "seed"))
        clip_norm = condition["clip_norm"]
        label = "" if math.isnan(clip_norm) else f"C = {clip_norm:g}"
        rows.append(MapRow(group, note, label, ", ".join(details), condition["part"]))
    return rows


def _group(condition: Mapping[Hashable, Any], several: bool) -> tuple[str, str]:
    part, rule = condition["part"], condition["rule"]
    if part == "baseline":
        return "baseline", "not private"
    if part == "private":
        return rule, epsilon_text(condition["shown_epsilon"]) if several else ""
    what = _MECHANISMS.get(condition["mechanism"], "no guarantee")
    return f"{rule}, {what}", "diagnostic, not private"
