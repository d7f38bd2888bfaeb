"""The conditions of a family as the page names them: rule, C, what is guaranteed, which runs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from analysis import schema
from analysis.page.numbers import rounded
from analysis.wording import epsilon_text, plain_number

_MECHANISMS = {
    "clip_only": "clipped, no noise",
    "noise_only": "noise, not clipped",
    "neither": "no clipping, no noise",
}
NOT_PRIVATE = "not private"
_TRAINED = ("train", schema.PROBE)


def releases(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return by run key what its rows are: ``release`` of training, ``tested`` of the test."""
    found: dict[str, dict[str, str]] = {}
    for name, split in (("release", _TRAINED), ("tested", ("test",))):
        rows = table.loc[table["split"].isin(split), :].drop_duplicates("run_key")
        for key, release in zip(rows["run_key"], rows["release"], strict=True):
            found.setdefault(key, {})[name] = str(release)
    return found


def condition_rows(
    part: pd.DataFrame, cells: pd.DataFrame, released: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Return one entry per condition of ``part``, in its order; ``released`` by ``releases``.

    Keys: ``rule``, ``part`` (baseline, private or diagnostic), ``mechanism``, ``c`` (null without
    one), ``settings`` (words), ``seeds``, ``runs`` (run keys), ``guarantee`` (ε with accountant, δ
    and unit, or why there is none), ``short`` (ε alone, or the mechanism), ``lr_scale``,
    and ``release`` and ``tested``: what its numbers of training and of the test split are.
    """
    scalars = cells.set_index("run_key")
    rows: list[dict[str, Any]] = []
    for _, own in part.groupby("condition", sort=True):
        first = own.iloc[0].to_dict()
        cell = scalars.loc[first["run_key"]].to_dict()
        rows.append({
            "rule": str(first["rule"]),
            "part": str(first["part"]),
            "mechanism": str(first["mechanism"]),
            "c": rounded(float(first["clip_norm"])),
            "settings": list(first["settings"]),
            "seeds": len(set(own["replicate"].dropna())),
            "runs": list(own["run_key"]),
            "guarantee": _guarantee(first, cell),
            "short": _short(first),
            "lr_scale": _word(cell.get("lr_scale")),
            **released.get(str(first["run_key"]), {}),
        })  # fmt: skip
    return rows


def _guarantee(first: Mapping[Hashable, Any], cell: Mapping[Hashable, Any]) -> str:
    """Return the guarantee in words; a δ, a unit or an accountant that is not stated is named."""
    if first["part"] != "private":
        what = _MECHANISMS.get(str(first["mechanism"]), "no guarantee")
        kind = "baseline" if first["part"] == "baseline" else "diagnostic"
        return f"{kind}, {NOT_PRIVATE} (ε = ∞): {what}"
    unit, name = _word(cell.get("unit")), _word(cell.get("unit_name"))
    unit = unit if name in ("", unit) else f"{unit} ({name})"
    delta = cell.get("delta")
    stated = "δ not stated"
    if isinstance(delta, float) and math.isfinite(delta):
        stated = f"δ = {plain_number(delta)}"
    accountant = _word(cell.get("accountant")).upper() or "accountant not stated"
    epsilon = epsilon_text(float(first["shown_epsilon"]))
    return f"{epsilon} ({accountant}, {stated}, unit {unit or 'not stated'})"


def _short(first: Mapping[Hashable, Any]) -> str:
    if first["part"] == "private":
        return epsilon_text(float(first["shown_epsilon"]))
    return _MECHANISMS.get(str(first["mechanism"]), "no guarantee")


def _word(value: Any) -> str:
    return "" if value is None or pd.isna(value) else str(value)
