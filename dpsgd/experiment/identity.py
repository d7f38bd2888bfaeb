"""The run key: what makes two cells the same run."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from dpsgd.experiment.parts import plain
from dpsgd.experiment.settings import Cell

RESULT_VERSION = 1
"""Raised whenever the same configuration would train to another result."""

NOT_RESULTS = ("tracker",)
NOT_RESULT_SETTINGS = ("runs_dir",)


def cell_config(cell: Cell) -> dict[str, Any]:
    """Return the cell as plain nested data: root keys, then groups."""
    config = dict(plain(cell.settings))
    config.pop("_target_")
    for group in Cell.__dataclass_fields__:
        if group != "settings":
            config[group] = plain(getattr(cell, group))
    return config


def run_key(cell: Cell, fingerprint: str) -> str:
    """Return 16 hex digits: SHA-256 of the typed configuration, the data and the code's version.

    ``fingerprint`` is the data's SHA-256. The tracker and ``runs_dir`` do not matter.
    """
    config = cell_config(cell)
    for name in (*NOT_RESULTS, *NOT_RESULT_SETTINGS):
        config.pop(name)
    identity = {"config": config, "data": fingerprint, "result_version": RESULT_VERSION}
    text = json.dumps(_finite(identity), sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flat_config(cell: Cell) -> dict[str, Any]:
    """Return ``config.<dotted key>`` to scalar for every setting that can change a result."""
    config = cell_config(cell)
    for name in (*NOT_RESULTS, *NOT_RESULT_SETTINGS):
        config.pop(name)
    return {f"config.{key}": value for key, value in _flatten(_finite(config), "")}


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            item
            for name, inner in value.items()
            for item in _flatten(inner, f"{prefix}.{name}" if prefix else name)
        ]
    return [(prefix, json.dumps(value) if isinstance(value, list) else value)]


def _finite(value: Any) -> Any:
    """Return data in which infinities are words, which JSON can hold."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
