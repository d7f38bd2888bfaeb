"""All data of the page as one structure of JSON types: families, each with conditions × slices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import schema
from analysis.cells import one_row_each
from analysis.conditions import conditions
from analysis.page.details import Budget, details
from analysis.page.measured import measured
from analysis.page.metrics import OVERALL, colours, shown
from analysis.page.numbers import rounded
from analysis.page.rows import condition_rows, releases
from analysis.page.values import block, calibrated, overall
from analysis.slices import SliceColumn, slice_columns

SPLITS = ("test", "validation")
_MANY = 20_000
"""Conditions × slices above which only the metrics of the first need are embedded."""


def payload(
    table: pd.DataFrame,
    runs: Path | None,
    findings: Sequence[str],
    left_out: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Return what the page shows of ``table``; ``runs`` holds the run folders, for the panel.

    ``findings`` are sentences for the top of the page; ``left_out`` pairs of folder and reason.
    """
    cells = one_row_each(table)
    # As for the figures: what is learned from what comes first, then what differs within it.
    parts = [(part, conditions(part)) for _, part in table.groupby(["data", "model"], sort=False)]
    count = sum(len(set(named["condition"])) for _, named in parts)
    budget = Budget.of(count, len(cells), len(table[["slice_kind", "slice"]].drop_duplicates()))
    families = [
        _family(_slim(part), named, own, cells, runs, budget)
        for part, named in parts
        for _, own in named.groupby("family", sort=True)
    ]
    families.sort(key=lambda family: -family["cells"])
    return {
        "families": families,
        "metrics": {split: [_told(one) for one in shown(split)] for split in SPLITS},
        "overall": OVERALL,
        "colours": colours(),
        "findings": list(findings),
        "left_out": [list(entry) for entry in left_out],
        "cells": len(cells),
        "notes": budget.notes(),
    }


def _family(
    table: pd.DataFrame,
    named: pd.DataFrame,
    part: pd.DataFrame,
    cells: pd.DataFrame,
    runs: Path | None,
    budget: Budget,
) -> dict[str, Any]:
    own = table.loc[table["run_key"].isin(list(part["run_key"])), :]
    columns = slice_columns(own.merge(cells[["run_key", *_declared(cells)]], on="run_key"))
    places = [int(place) for place in part["condition"].unique()]
    first = cells.loc[cells["run_key"] == part["run_key"].iloc[0]].iloc[0]
    found: dict[str, Any] = {
        "data": str(first["data"]),
        "model": str(first["model"]),
        "heading": list(part["heading"].iloc[0]),
        "cells": len(part),
        "slices": [_slice(column) for column in columns],
        "conditions": condition_rows(part, cells, releases(own)),
        "values": _values(table, named, places, columns),
        "overall": {split: overall(own, named, places, split) for split in SPLITS},
    }
    if runs is not None:
        keys = _keys(part, places)
        found |= details(runs, keys, columns, budget)
        tails = frozenset(column.name for column in columns if column.tail)
        found["measured"] = measured(_labelled(runs, cells, keys), tails)
    return found


def _slim(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without what is the same for all rows of a run, which is slow to copy."""
    return table.loc[:, ["run_key", "baseline_key", *schema.CELL_METRICS]]


def _declared(cells: pd.DataFrame) -> list[str]:
    """Return the settings by which slices are told to be rare."""
    wanted = ("config.data.", "config.slices.")
    return [name for name in map(str, cells) if name.startswith(wanted)]


def _values(
    table: pd.DataFrame, named: pd.DataFrame, places: Sequence[int], columns: Sequence[SliceColumn]
) -> dict[str, Any]:
    many = len(places) * len(columns) > _MANY
    blocks: dict[str, Any] = {}
    for split in SPLITS:
        for one in shown(split):
            name = f"{one.split}/{one.key}"
            if name in blocks or (many and (one.spare or split != SPLITS[0])):
                continue
            packed = block(table, named, places, columns, one)
            if packed is not None:
                blocks[name] = packed
        beside = None if many else calibrated(table, named, places, columns, split)
        if beside is not None:
            blocks[f"{split}/ece_calibrated"] = beside
    return blocks


def _keys(part: pd.DataFrame, places: Sequence[int]) -> list[list[str]]:
    by = part.groupby("condition")["run_key"]
    return [list(by.get_group(place)) for place in places]


def _labelled(
    runs: Path, cells: pd.DataFrame, keys: Sequence[Sequence[str]]
) -> list[tuple[str, Path]]:
    labels = dict(zip(cells["run_key"], cells["label"].fillna(""), strict=True))
    first = [own[0] for own in keys]
    return [(f"{labels[key] or key} ({key[:8]})", runs / key) for key in first]


def _slice(column: SliceColumn) -> dict[str, Any]:
    return {
        "kind": column.kind,
        "name": column.name,
        "heading": column.heading,
        "short": column.short,
        "n": rounded(column.n_high),
        "tail": column.tail,
    }


def _told(one: Any) -> dict[str, Any]:
    return {
        "key": one.key,
        "block": f"{one.split}/{one.key}",
        "split": one.split,
        "change": one.change,
        "title": one.title,
        "about": one.about,
        "dark": one.dark,
        "scale": one.scale,
        "share": one.share,
    }
