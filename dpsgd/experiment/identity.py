"""The run key: what makes two cells the same run."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from dpsgd.experiment.own_code import own_code
from dpsgd.experiment.parts import plain
from dpsgd.experiment.settings import Cell

RESULT_VERSION = 3
"""Raised whenever the same configuration would train to another result."""

PATHS = ("path", "test_path")
NOT_RESULTS = ("tracker", "runs_dir")
"""What may differ between two cells that are the same run."""


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

    ``fingerprint`` is the data's SHA-256. Tracker, ``runs_dir`` and paths of data do not matter.
    Parts of the
    user's own enter with the SHA-256 of their files: an edited model that kept its key would draw
    the same noise for another sum, and the two could be subtracted.
    """
    identity = {
        "config": _result_config(cell),
        "data": fingerprint,
        "result_version": RESULT_VERSION,
        "own_code": own_code(_targets(_result_config(cell))),
    }
    # Python writes Infinity without quotes, so that it is not the word "inf".
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flat_config(cell: Cell) -> dict[str, Any]:
    """Return ``config.<dotted key>`` to scalar for every setting that can change a result."""
    config = infinities_as_words(_result_config(cell))
    return {f"config.{key}": value for key, value in _flatten(config, "")}


def infinities_as_words(value: Any) -> Any:
    """Return the same data with infinities and NaN as words, which JSON can hold."""
    if isinstance(value, dict):
        return {name: infinities_as_words(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [infinities_as_words(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _result_config(cell: Cell) -> dict[str, Any]:
    config = {name: value for name, value in cell_config(cell).items() if name not in NOT_RESULTS}
    # Data count by their content, which the fingerprint holds, wherever they lie.
    config["data"] = {k: v for k, v in config["data"].items() if k not in PATHS}
    if not cell.debug.common_noise:
        config.pop("debug")
    return config


def _targets(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [str(value["_target_"])] if "_target_" in value else []
        return own + [t for inner in value.values() for t in _targets(inner)]
    return [t for inner in value for t in _targets(inner)] if isinstance(value, list) else []


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            item
            for name, inner in value.items()
            for item in _flatten(inner, f"{prefix}.{name}" if prefix else name)
        ]
    return [(prefix, json.dumps(value) if isinstance(value, list) else value)]
