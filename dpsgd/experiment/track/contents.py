"""What a run is in MLflow: name, tags, params, metrics and files, read from its folder.

Of a released run nothing goes that its own gate would not let out, and no file that is not as it
was sealed. Tracebacks stay, of a released run: they may quote a record.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis import schema
from dpsgd.errors import PrivacyError
from dpsgd.experiment.allowed import gate_of
from dpsgd.experiment.files import read_json
from dpsgd.experiment.mlflow_names import guarantee, legal_name, legal_names, metrics_of
from dpsgd.experiment.seal import SEALED, sha256
from dpsgd.experiment.track.rows import looks, series

FILES = (schema.CELL_FILE, schema.LEDGER_FILE, schema.LEDGER_PAGE, schema.CONFIG_FILE)
"""What is copied as files: never weights, tables of predictions, secrets."""
_READ = [name for name in SEALED if name not in (schema.MODEL_FILE, schema.PREDICTIONS_FILE)]
SLICES_FILE = "slices.json"
_LONGEST_PARAM = 500
_OWN_PLACE = ("config.tracker", "config.runs_dir", "config.data.path", "config.data.test_path")


@dataclass(frozen=True)
class Contents:
    """One run as MLflow holds it. ``start`` and ``end`` are milliseconds since 1970; ``metrics``
    are (name, value, milliseconds, step); ``texts`` are files by name, beside ``files``.
    """

    run_key: str
    name: str
    status: str
    start: int
    end: int
    tags: Mapping[str, str]
    params: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, float, int, int], ...]
    files: tuple[Path, ...]
    texts: Mapping[str, str]


def contents(folder: Path, how: str, status: Mapping[str, Any]) -> Contents:
    """Return the contents of a run that ended ``how`` (FINISHED, FAILED or KILLED).

    Raises:
        PrivacyError: a released run whose files are not as they were sealed.
        KeyError, ValueError, OSError: a folder that cannot be read.

    """
    if how != "FINISHED":
        return _unfinished(folder, how, status)
    cell = read_json(folder / schema.CELL_FILE)
    if not isinstance(cell, dict):
        raise ValueError(f"{schema.CELL_FILE} is torn or missing")
    release = bool(cell.get("config.release"))
    return _finished(folder, gate_of(release=release).cell(cell), _files(folder, status, release))


def _finished(folder: Path, cell: Mapping[str, Any], files: tuple[Path, ...]) -> Contents:
    end = _milliseconds(cell["finished_at"])
    start = end - int(cell.get("seconds", 0.0) * 1000)  # a released run does not say
    per_step = (end - start) / max(int(cell["steps"]), 1)
    # At step 0 MLflow draws final values as bars; at the last step as curves of one point.
    rows = [(name, value, 0) for name, value in metrics_of(cell).items()]
    rows += series(folder) + looks(folder)
    legal = legal_names(name for name, _, _ in rows)
    found = {new: name for name, new in legal.items()}
    return Contents(
        cell["run_key"], cell["label"], "FINISHED", start, end, {},
        _params(cell, _outcome(cell)),
        tuple((legal[n], value, start + int(per_step * step), step) for n, value, step in rows),
        files, {SLICES_FILE: json.dumps(found, indent=1, ensure_ascii=False)},
    )  # fmt: skip


def _outcome(cell: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"rule": cell["rule"], "mechanism": cell["mechanism"], "guarantee": guarantee(cell)}
    ended = ("stopped_by", "steps_taken", "step_released", "looks_taken")
    return shown | {name: cell[name] for name in ended if "looks_taken" in cell}


def _unfinished(folder: Path, how: str, status: Mapping[str, Any]) -> Contents:
    config = yaml.safe_load((folder / schema.CONFIG_FILE).read_text(encoding="utf-8"))
    release = bool(config.get("release"))
    shown = gate_of(release=release).status({**status, "status": how})
    end = _milliseconds(shown.get("heartbeat", shown["started_at"]))
    why = str(shown.get("stopped_by", "no word: its process is gone"))
    settings = {"rule": config["clip"]["name"], "mechanism": config["mechanism"]}
    name = _label(config, read_json(folder / schema.LEDGER_FILE))
    return Contents(
        folder.name, name, how, _milliseconds(shown["started_at"]), end,
        {"stopped_by": why, "step": str(shown.get("step", 0))},
        _params(_flat(config, "config"), settings), (),
        _files(folder, status, release),
        {schema.STATUS_FILE: json.dumps(shown, indent=1, ensure_ascii=False)},
    )  # fmt: skip


def _files(folder: Path, status: Mapping[str, Any], release: bool) -> tuple[Path, ...]:
    sealed = status.get("files", {})
    if release and status["status"] == "FINISHED":
        for name in _READ:
            if (folder / name).exists() and sealed.get(name) != sha256(folder / name):
                raise PrivacyError(f"{name} is not as it was sealed: nothing of this run leaves")
    return tuple(folder / name for name in FILES if (folder / name).exists())


def _params(values: Mapping[str, Any], more: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = {
        legal_name(key.removeprefix("config.")): value
        for key, value in values.items()
        if key.startswith("config.") and not key.endswith("_target_")
    }
    found |= more
    return tuple((name, str(value)[:_LONGEST_PARAM]) for name, value in found.items())


def _label(config: Mapping[str, Any], ledger: Any) -> str:
    """Return a short name of a run that did not live to be given one, with the ε that it aimed for,
    or that of its ``ledger`` where steps that were charged again take it beyond.
    """
    norm = config["clip"].get("norm")
    threshold = "" if norm is None else f" C={norm:g}"
    mechanism = "" if config["mechanism"] == "private" else f" {config['mechanism']}"
    epsilon = config["epsilon"] if config["mechanism"] == "private" else "∞"
    owed = ledger.get("epsilon") if isinstance(ledger, dict) else None
    if isinstance(owed, float) and isinstance(epsilon, int | float) and owed > epsilon:
        epsilon = math.ceil(owed * 100) / 100
    shown = epsilon if isinstance(epsilon, str) or epsilon is None else f"{epsilon:g}"
    return f"{config['clip']['name']}{threshold}{mechanism} ε={shown} s{config['seed']}"


def _flat(value: Any, key: str) -> dict[str, Any]:
    if key in _OWN_PLACE:
        return {}
    if isinstance(value, Mapping):
        inner = [_flat(one, f"{key}.{name}") for name, one in value.items()]
        return {name: one for found in inner for name, one in found.items()}
    return {key: json.dumps(value) if isinstance(value, list) else value}


def _milliseconds(moment: str) -> int:
    return int(datetime.datetime.fromisoformat(moment).timestamp() * 1000)
