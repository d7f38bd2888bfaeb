"""Names and values that MLflow accepts, from a cell's own."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dpsgd.accounting import format_delta, format_epsilon, unit_text

_REFUSED = re.compile(r"[^\w\-. /:]")
_LONGEST = 250
VIEW = "atlas"
"""The key of the shared view in the address of MLflow's page."""
VIEW_QUERY = f"workflowType=machine_learning&viewStateShareKey={VIEW}"
VIEW_METRICS = (
    "privacy/epsilon", "kept/all/all", "kept/rarity/tail", "tail/worst", "tail/band",
    "eval/accuracy/all/all", "eval/ece/all/all",
)  # fmt: skip


def legal_name(name: str) -> str:
    """Return ``name`` with what MLflow refuses in a metric's name replaced by ``_``.

    Too long a name is cut and ends in a digest, so that two long names stay two.
    """
    parts = [part for part in _REFUSED.sub("_", name).split("/") if part]
    legal = "/".join("_" * len(part) if part in {".", ".."} else part for part in parts) or "_"
    return legal if len(legal) <= _LONGEST else f"{legal[: _LONGEST - 9]}_{_digest(name)}"


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Return the legal name of every name; names that would share one get a digest each."""
    unique = list(dict.fromkeys(names))
    # SQLite and MLflow's pages tell capitals apart, a file system may not.
    wanted = [legal_name(name).casefold() for name in unique]
    times = Counter(wanted)
    found: dict[str, str] = {}
    for name, want in zip(unique, wanted, strict=True):
        legal = legal_name(name)
        if times[want] > 1:
            legal = f"{legal[: _LONGEST - 9]}_{_digest(name)}"
        found[name] = legal
    return found


def metrics_of(cell: Mapping[str, Any]) -> dict[str, float]:
    """Return final metrics by MLflow name; null, NaN and infinities are left out."""
    found = {
        "privacy/epsilon": float(cell["epsilon"]),
        "privacy/delta": float(cell["delta"]),
        "privacy/noise_multiplier": float(cell["noise_multiplier"]),
    }
    # MLflow stores ∞ as 1.8e308, which no axis survives: the parameter `guarantee` says it.
    found = {name: value for name, value in found.items() if math.isfinite(value)}
    columns = cell["metrics"]
    rows = zip(
        *(columns[c] for c in ("split", "slice_kind", "slice", "metric", "value")), strict=True
    )
    for split, kind, name, metric, value in rows:
        if value is None or math.isnan(value):
            continue
        if metric in ("tail_worst", "tail_band"):
            prefix = "" if split == "test" else f"{split}/"
            found[f"{prefix}tail/{metric.removeprefix('tail_')}"] = value
            continue
        stem = metric if split == "train" else f"{'eval' if split == 'test' else split}/{metric}"
        found[f"{stem}/{kind}/{name}"] = value
    return found


def guarantee(cell: Mapping[str, Any]) -> str:
    """Return the cell's ε with all that gives it a meaning, in one line."""
    if not cell["private"]:
        return f"ε = ∞ ({cell['mechanism']}): a diagnostic, not private"
    return (
        f"ε = {format_epsilon(cell['epsilon'])} ({cell['accountant']}), "
        f"δ = {format_delta(cell['delta'])}, unit: {unit_text(cell['unit'], cell['unit_name'])}"
    )


def shared_view() -> str:
    """Return the state of MLflow's runs page that compares cells: what was kept, the tail, ECE."""
    shown = [
        *("params.`rule`", "params.`clip.norm`", "params.`mechanism`"),
        *(f"metrics.`{name}`" for name in VIEW_METRICS),
    ]
    return json.dumps(
        {"selectedColumns": shown, "orderByKey": "metrics.`tail/worst`", "orderByAsc": False,
         "searchFilter": "", "startTime": "ALL", "lifecycleFilter": "Active"}
    )  # fmt: skip


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]
