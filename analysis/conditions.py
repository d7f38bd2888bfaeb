"""Which cells are repetitions of one another: a condition is everything but the seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.cells import one_row_each
from analysis.settings import Setting, differing

IDENTITY = ("part", "rule", "mechanism", "shown_epsilon", "clip_norm")
PARTS = ("baseline", "private", "diagnostic")

_RUN_LETTERS = 8


def conditions(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run with the number of its condition and what names it.

    Cells share a condition if they agree in rule, C, ε, mechanism and every setting; only the seed
    of training may differ, not that of the data. Where one seed is there twice (other data or code
    under one configuration), every run is a condition of its own.

    Columns: ``run_key``; ``condition``, 0, 1, ... in the order of a figure: by family, then
    baselines, private cells, diagnostics, flat first, then by rule, ε and C; ``family``, 0, 1, ...:
    conditions on the same data, model, slices and owners; ``heading``, what is told of all of a
    family; those of ``IDENTITY``; ``settings``, what is told of the condition; and ``replicate``,
    the seed. ``heading`` and ``settings`` are tuples of ``key=value`` that together hold every
    setting that differs anywhere in the table and can matter to the condition.
    """
    cells = named_cells(table)
    found = differing(cells, IDENTITY)
    cells["family"] = _families(len(cells), found)
    cells["heading"], cells["settings"] = _told(cells["family"].to_numpy(), found)
    codes = [f"code {place}" for place in range(len(found))]
    cells = cells.assign(
        **{name: setting.codes for name, setting in zip(codes, found, strict=True)},
        replicate=cells["seed"].astype("string"),
    )
    by = ["family", *IDENTITY, *codes]
    twice = cells.duplicated([*by, "replicate"]).groupby([cells[name] for name in by], dropna=False)
    alone = twice.transform("any")
    cells["run"] = cells["run_key"].where(alone, "")
    cells["settings"] = [
        (*words, f"run={key[:_RUN_LETTERS]}") if key else words
        for words, key in zip(cells["settings"], cells["run"], strict=True)
    ]
    by.append("run")
    cells = cells.sort_values([*by, "run_key"], key=_order, kind="stable", na_position="first")
    cells["condition"] = cells.groupby(by, dropna=False, sort=False).ngroup()
    columns = ["run_key", "condition", "family", "heading", *IDENTITY, "settings", "replicate"]
    return cells.loc[:, columns].reset_index(drop=True)


def named_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run with its scalars and the columns of ``IDENTITY``."""
    cells = one_row_each(table)
    parts = [
        _part(key, baseline, private)
        for key, baseline, private in zip(
            cells["run_key"], cells["baseline_key"], cells["private"], strict=True
        )
    ]
    epsilons = [
        shown_epsilon(reached, target)
        for reached, target in zip(cells["epsilon"], cells["epsilon_target"], strict=True)
    ]
    return cells.assign(part=parts, shown_epsilon=epsilons)


def shown_epsilon(reached: float, target: float) -> float:
    """Return the ε to print: the target where it was spent, else ε rounded up to three digits.

    A target is shown only from above: never where the certified ε exceeds it, and not where the
    run spent under 98 % of it (a fixed noise multiplier below a budget).
    """
    if target * 0.98 <= reached <= target:
        return target
    if not math.isfinite(reached) or reached <= 0:
        return reached
    step = 10.0 ** (math.floor(math.log10(reached)) - 2)
    return float(f"{math.ceil(reached / step - 1e-9) * step:.3g}")


def _part(run_key: str, baseline_key: object, private: bool) -> str:
    if pd.notna(baseline_key) and baseline_key == run_key:  # pyright: ignore[reportGeneralTypeIssues]
        return "baseline"
    return "private" if private else "diagnostic"


def _order(column: pd.Series) -> pd.Series:
    if column.name == "part":
        return column.map({part: position for position, part in enumerate(PARTS)})
    if column.name == "rule":  # the reference before the rules that are compared with it
        return column.where(column != "flat", "")
    return column


def _families(cells: int, found: Sequence[Setting]) -> np.ndarray:
    codes = {place: setting.codes for place, setting in enumerate(found) if setting.of_family}
    if not codes:
        return np.zeros(cells, dtype=int)
    return pd.DataFrame(codes).groupby(list(codes)).ngroup().to_numpy()


def _told(
    families: np.ndarray, found: Sequence[Setting]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return for every cell what its family's heading tells and what its own row tells."""
    headings: list[list[str]] = [[] for _ in families]
    rows: list[list[str]] = [[] for _ in families]
    several = len(set(families.tolist())) > 1
    for setting in sorted(found, key=lambda setting: not setting.of_family):
        values = pd.Series(setting.codes).groupby(families).transform("nunique")
        alike = pd.Series(values).eq(1).tolist()
        for cell, word in enumerate(setting.words):
            shared = several and alike[cell] and not setting.of_rule
            if word:
                (headings if shared else rows)[cell].append(word)
    return [tuple(words) for words in headings], [tuple(words) for words in rows]
