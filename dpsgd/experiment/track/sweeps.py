"""Sweeps as MLflow knows them: a tag on each of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpsgd.experiment.files import read_json
from dpsgd.experiment.mlflow_names import legal_name

FOLDER = "sweeps"
SWEEP = "sweep."
"""What the tags begin with."""


def sweeps_of(runs: Path) -> dict[str, list[str]]:
    """Return the run keys of every sweep that is listed in ``runs/sweeps/<name>.json``."""
    found: dict[str, list[str]] = {}
    for file in sorted((runs / FOLDER).glob("*.json")):
        listed = read_json(file)
        if isinstance(listed, dict):
            found[str(listed.get("name", file.stem))] = _keys(listed)
    return found


def tags_of(sweeps: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """Return the tags that say which sweeps a cell belongs to, by run key."""
    found: dict[str, dict[str, str]] = {}
    for name, keys in sweeps.items():
        for key in keys:
            found.setdefault(key, {})[legal_name(f"{SWEEP}{name}")] = "1"
    return found


def _keys(listed: Mapping[str, Any]) -> list[str]:
    found = [key for part in ("keys", "baselines") for key in listed.get(part) or ()]
    return list(dict.fromkeys(key for key in found if isinstance(key, str)))
