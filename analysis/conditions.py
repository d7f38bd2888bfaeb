"""Which cells are repetitions of one another: a condition is everything but the seeds."""

from __future__ import annotations

import math

import pandas as pd

from analysis.cells import one_row_each

IDENTITY = ("part", "rule", "mechanism", "shown_epsilon", "clip_norm")
PARTS = ("baseline", "private", "diagnostic")

_SEEDS = ("seed", "data_seed", "config.seed", "config.data.seed")
_NOT_SETTINGS = ("config.runs_dir", "config.tracker", "config.hydra", "config.sweep")
_SETTINGS = (
    *("unit", "relation", "delta", "accountant", "batch", "steps_planned"),
    *("lr", "lr_scale", "result_version"),
)


def conditions(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run with the number of its condition and what names it.

    Cells share a condition if they agree in rule, C, ε, mechanism and every setting; only the
    seeds may differ. Columns: ``run_key``, ``condition`` (0, 1, ... in the order of a figure:
    baselines, private cells, diagnostics; flat first, then by rule, ε and C), those of
    ``IDENTITY``, ``settings`` (``key=value`` of what tells otherwise equal conditions apart) and
    ``replicate`` (the pair of seeds).
    """
    cells = one_row_each(table)
    cells["part"] = [
        _part(key, baseline, private)
        for key, baseline, private in zip(
            cells["run_key"], cells["baseline_key"], cells["private"], strict=True
        )
    ]
    cells["shown_epsilon"] = [
        shown_epsilon(reached, target)
        for reached, target in zip(cells["epsilon"], cells["epsilon_target"], strict=True)
    ]
    cells["settings"] = _settings(cells)
    cells["replicate"] = cells["seed"].astype("string") + "/" + cells["data_seed"].astype("string")
    cells["replicate"] = cells["replicate"].fillna(cells["seed"].astype("string"))
    cells = cells.sort_values(
        [*IDENTITY, "settings", "run_key"], key=_order, kind="stable", na_position="first"
    )
    by = [*IDENTITY, "settings"]
    cells["condition"] = cells.groupby(by, dropna=False, sort=False).ngroup()
    return cells.loc[:, ["run_key", "condition", *by, "replicate"]].reset_index(drop=True)


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


def _settings(cells: pd.DataFrame) -> list[str]:
    """Name what differs between cells that agree in ``IDENTITY``, each difference once."""
    group = cells.groupby(list(IDENTITY), dropna=False, sort=False).ngroup()
    seen: set[tuple[int, ...]] = set()
    told: list[list[str]] = [[] for _ in group]
    for name in [*_SETTINGS, *_config_keys(cells)]:
        value = pd.Series(pd.factorize(cells[name], use_na_sentinel=False)[0], group.index)
        differs = pd.Series(value.groupby(group).transform("nunique")) > 1
        # config.optim.lr says what lr says: the same split of the cells needs one name only.
        split = tuple(pd.factorize(group * len(cells) + value.where(differs, 0))[0])
        if not differs.any() or split in seen:
            continue
        seen.add(split)
        for row in differs.to_numpy().nonzero()[0]:
            told[row].append(f"{name.removeprefix('config.')}={_text(cells[name].iloc[row])}")
    return [", ".join(words) for words in told]


def _config_keys(cells: pd.DataFrame) -> list[str]:
    keys = [name for name in cells.columns if name.startswith("config.") and name not in _SEEDS]
    return sorted((key for key in keys if not key.startswith(_NOT_SETTINGS)), key=len)


def _text(value: object) -> str:
    if pd.isna(value):  # pyright: ignore[reportGeneralTypeIssues]
        return "null"
    return f"{value:g}" if isinstance(value, float) else str(value)
