"""Sentences that every figure says: what protects whom, and how the learning rate went with C."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from analysis.wording import epsilon_text, plain_number

_LR_SCALE = {
    "by_norm": "the learning rate was divided by C (lr_scale=by_norm)",
    "fixed": "the learning rate stayed the same (lr_scale=fixed), so C also scales the step",
}


def privacy(cells: pd.DataFrame, named: pd.DataFrame, others: str) -> str:
    """Return every ε with its accountant, δ, unit and relation, and a sentence on ``others``."""
    keys = named.loc[named["part"] == "private", "run_key"]
    private = cells.loc[cells["run_key"].isin(list(keys)), :]
    if private.empty:
        return others
    of_row = named.loc[named["part"] == "private", "shown_epsilon"]
    budgets = [epsilon_text(value).removeprefix("ε = ") for value in sorted(of_row.unique())]
    stated = f"ε = {', '.join(budgets)} ({listed(private['accountant']).upper()})"
    stated += f", δ = {listed(private['delta'])}, unit {_unit(private)}"
    stated += f", neighbours by {listed(private['relation']).replace('_', ' ')}"
    return f"{stated}. {others}" if len(private) < len(cells) else stated


def listed(column: Iterable[Any]) -> str:
    """Return the different values, sorted, with commas."""
    stated = sorted({value for value in column if pd.notna(value)})
    texts = [plain_number(value) if isinstance(value, float) else str(value) for value in stated]
    return ", ".join(texts) or "not stated"


def thinned(cells: pd.DataFrame) -> str:
    """Return what is declared of the tail, where it is the same for all cells."""
    columns = {key: f"config.data.{key}" for key in ("class", "keep", "profile")}
    found = {key: set(cells[name]) for key, name in columns.items() if name in cells}
    same = {key: next(iter(values)) for key, values in found.items() if len(values) == 1}
    told = [f"data.{key}={listed([value])}" for key, value in same.items() if pd.notna(value)]
    return f" ({', '.join(told)})" if told else ""


def learning_rate(cells: pd.DataFrame) -> str:
    """Return what ``lr_scale`` did over C in the cells that are no baselines."""
    found = cells.loc[cells["mechanism"] != "neither", "lr_scale"].dropna().unique()
    if len(found) == 0:
        return ""
    texts = [_LR_SCALE.get(word, f"lr_scale={word}") for word in sorted(found)]
    return f"Over C, {'; in other rows '.join(texts)}"


def setting(cells: pd.DataFrame) -> str:
    """Return data and model, with what is declared of the tail."""
    return f"Data {cells['data'].iloc[0]}{thinned(cells)}, model {cells['model'].iloc[0]}"


def tested(table: pd.DataFrame) -> str:
    """Return that ε does not cover the test examples, where that is so of private cells."""
    rows = (table["metric"] == "recall") & (table["split"] == "test")
    rows &= table["private"].fillna(value=False).astype(bool)
    raw = "private" in set(table.loc[rows, "release"])
    return "The test examples are not covered by ε" if raw else ""


def joined(sentences: Iterable[str]) -> str:
    """Return sentences as one text, without the empty ones."""
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _unit(cells: pd.DataFrame) -> str:
    pairs = cells[["unit", "unit_name"]].drop_duplicates()
    texts = [
        str(unit) if pd.isna(name) or name == unit else f"{unit} ({name})"
        for unit, name in pairs.itertuples(index=False)
    ]
    return ", ".join(texts)
