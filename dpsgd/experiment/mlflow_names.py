"""Names and values that MLflow accepts, from a cell's own."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_REFUSED = re.compile(r"[^\w\-. /:]")
_LONGEST = 250


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
    """Return final metrics by MLflow name; null and NaN are left out."""
    found = {
        "privacy/epsilon": float(cell["epsilon"]),
        "privacy/delta": float(cell["delta"]),
        "privacy/noise_multiplier": float(cell["noise_multiplier"]),
    }
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


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]
