"""The run key: what makes two cells the same run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from dpsgd.experiment.own_code import own_code, targets_in
from dpsgd.experiment.parts import plain
from dpsgd.experiment.settings import UNAUDITED, UNDECIDED, Cell
from dpsgd.experiment.version import RESULT_VERSION

PATHS = ("path", "test_path")
NOT_RESULTS = (
    "tracker", "runs_dir", "checkpoint", "resume", "threads", "on_failure", "baselines",
)  # fmt: skip
"""What may differ between two cells that are the same run."""

WITHHELD = "withheld: a hash of private data would tell two candidates apart"
"""Stands in a released run for the SHA-256 of its data: in the ledger, and in the run key."""


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

    ``fingerprint`` is the data's SHA-256, which a released run's key does not hold. Tracker,
    ``runs_dir`` and paths of data do not matter. Parts of the user's own enter with the SHA-256 of
    their files: an edited model that kept its key would draw the same noise for another sum, and
    the two could be subtracted.
    """
    data, config = named_data(cell, fingerprint), cell_config(cell)
    return key_of(config, data, RESULT_VERSION, _own_code_in(config))


def named_data(cell: Cell, fingerprint: str) -> str:
    """Return what may name a cell's data outside: their ``fingerprint``, or that it is withheld."""
    return WITHHELD if cell.settings.release else fingerprint


def key_of(
    config: Mapping[str, Any], fingerprint: str, result_version: object, own: Mapping[str, str]
) -> str:
    """Return the run key of a whole configuration, as ``config.yaml`` holds it, of these data, of
    this version of the code, and of the user's own code ``own`` (module to SHA-256).
    """
    identity = {
        "config": result_config(config),
        "data": fingerprint,
        "result_version": result_version,
        "own_code": own,
    }
    # Python writes Infinity without quotes, so that it is not the word "inf".
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def own_code_of(cell: Cell) -> dict[str, str]:
    """Return the user's own modules behind a cell, with the SHA-256 of their files."""
    return _own_code_in(cell_config(cell))


def _own_code_in(config: Mapping[str, Any]) -> dict[str, str]:
    return own_code(targets_in(result_config(config)))


def flat_config(cell: Cell) -> dict[str, Any]:
    """Return ``config.<dotted key>`` to scalar for every setting that can change a result."""
    return flat(cell_config(cell))


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``flat_config`` of a whole configuration, as ``config.yaml`` holds it."""
    words = infinities_as_words(result_config(config))
    return {f"config.{key}": value for key, value in _flatten(words, "")}


def infinities_as_words(value: Any) -> Any:
    """Return the same data with infinities and NaN as words, which JSON can hold."""
    if isinstance(value, dict):
        return {name: infinities_as_words(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [infinities_as_words(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def result_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without what may differ between two cells that are the same run."""
    kept = {name: value for name, value in config.items() if name not in NOT_RESULTS}
    # Data count by their content, which the fingerprint holds, wherever they lie.
    kept["data"] = {k: v for k, v in config["data"].items() if k not in PATHS}
    if not config["debug"]["common_noise"]:
        kept.pop("debug")
    if kept.get("decide", {}).get("_target_") == UNDECIDED:
        kept.pop("decide")
    if kept.get("audit", {}).get("_target_") == UNAUDITED:
        kept.pop("audit")
    return kept


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            item
            for name, inner in value.items()
            for item in _flatten(inner, f"{prefix}.{name}" if prefix else name)
        ]
    return [(prefix, json.dumps(value) if isinstance(value, list) else value)]
