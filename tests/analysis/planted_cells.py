"""Write run folders with numbers that are known beforehand; nothing is trained."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis import schema

LABELS = tuple("0123456789")
BANDS = ("head", "tail")
TAIL_LABEL = "8"

_DRAWS = 30_000
_SURVIVAL = {"flat": 0.45, "per_layer": 0.40, "adaptive": 0.30, "automatic": 0.25}


def slices(labels: Sequence[str] = LABELS, bands: Sequence[str] = BANDS) -> list[tuple[str, str]]:
    """Return (kind, name) of ``all``, the rarity bands and the labels."""
    return [("all", "all"), *(("rarity", b) for b in bands), *(("label", name) for name in labels)]


def planted_recall(name: str, rule: str, clip_norm: float | None, seed: int) -> float:
    """Return the recall that is planted: the tail loses most, and seeds differ by 0.01."""
    base = 0.71 if name in (TAIL_LABEL, "tail") else 0.95
    if rule != "none":
        loss = 1 - _SURVIVAL.get(rule, 0.35) * min(1.5, clip_norm or 1.0)
        base -= loss * (0.7 if name in (TAIL_LABEL, "tail") else 0.12)
    return max(0.0, base + 0.01 * (seed - 1) + 0.003 * (hash_of(name) % 7))


def hash_of(name: str) -> int:
    """Return a number from a name that is the same in every process."""
    return sum(map(ord, name))


def metrics_of(
    places: Sequence[tuple[str, str]], rule: str, clip_norm: float | None, seed: int
) -> dict[str, list[Any]]:
    """Return the ``metrics`` columns of a cell."""
    rows: list[tuple[Any, ...]] = []
    for kind, name in places:
        rare = name in (TAIL_LABEL, "tail")
        recall = planted_recall(name, rule, clip_norm, seed)
        n = 1000 if kind == "all" else 90 + hash_of(name) % 20
        for split in ("validation", "test"):
            for metric in schema.METRICS_BY_SLICE:
                value = recall if metric in ("accuracy", "recall") else 1.0 - recall
                rows.append((split, kind, name, metric, value, n, value - 0.05, value + 0.05))
        kept = 1.0
        if rule != "none":
            kept = _SURVIVAL.get(rule, 0.35) * min(1.5, clip_norm or 1.0) * (0.5 if rare else 1.0)
        draws = _DRAWS * 10 if kind == "all" else _DRAWS // (4 if rare else 1)
        kept += 0.005 * (seed - 1) * (rule != "none")
        clipped = 0.0 if rule == "none" else min(1.0, 1.15 - kept)
        for metric, value in (("kept", kept), ("clip_fraction", clipped)):
            rows.append(("train", kind, name, metric, value, draws, None, None))
    for split in ("validation", "test"):
        for metric in schema.METRICS_OVERALL:
            rows.append((split, "all", "all", metric, 0.5, 1000, None, None))
    rows = [(*row, "private" if row[0] == "train" else "public") for row in rows]
    return dict(zip(schema.CELL_METRICS, map(list, zip(*rows, strict=True)), strict=True))


def key_of(rule: str, clip_norm: float | None, seed: int, more: str = "") -> str:
    return f"{rule}-{clip_norm}-{seed}{more}".replace(".", "_")


def cell(
    rule: str = "flat",
    clip_norm: float | None = 1.0,
    seed: int = 0,
    *,
    places: Sequence[tuple[str, str]] | None = None,
    mechanism: str = "private",
    baseline: bool = True,
    more: str = "",
    **changed: Any,
) -> dict[str, Any]:
    """Return the content of one ``cell.json``; ``changed`` replaces its scalars."""
    private = mechanism == "private"
    key = key_of(rule, clip_norm, seed, more or ("" if private else mechanism))
    own = rule == "none"
    content: dict[str, Any] = {
        "schema": schema.SCHEMA_VERSION,
        "run_key": key,
        "baseline_key": (key if own else key_of("none", None, seed, "neither"))
        if baseline
        else None,
        "label": f"{rule} C={clip_norm} ε=3 s{seed}",
        "status": "FINISHED",
        "rule": rule,
        "clip_norm": clip_norm,
        "mechanism": mechanism,
        "private": private,
        "diagnostic": not private,
        "model": "mlp",
        "data": "mnist_tail",
        "seed": seed,
        "data_seed": 0,
        "unit": "record",
        "unit_name": "record",
        "relation": "add_or_remove_one",
        "accountant": "pld",
        "epsilon": 2.9991 if private else "inf",
        "epsilon_target": 3.0 if private else None,
        "delta": 1e-4 if private else None,
        "noise_multiplier": 1.1 if private else 0.0,
        "batch": 256,
        "steps": 300,
        "steps_planned": 300,
        "stopped_by": "steps",
        "n_units": 3600,
        "lr": 0.5 / (clip_norm or 1.0),
        "lr_scale": "by_norm",
        "seconds": 12.5,
        "seconds_training": 10.0,
        "seconds_evaluation": 1.5,
        "finished_at": "2026-05-09T07:35:25+00:00",
        "result_version": "1",
        "config.clip._target_": f"dpsgd.clipping.{rule}",
        "config.clip.norm": "inf" if clip_norm is None else clip_norm,
        "config.seed": seed,
        "config.runs_dir": "runs",
        "metrics": metrics_of(places or slices(), rule, clip_norm, seed),
    }
    return content | changed


def baseline(seed: int = 0, **changed: Any) -> dict[str, Any]:
    """Return a baseline, which names itself as its baseline."""
    return cell("none", None, seed, mechanism="neither", **changed)


def set_value(
    content: dict[str, Any], where: Mapping[str, str], value: float | None, n: int
) -> None:
    """Overwrite value and n in the rows of a cell that match ``where``."""
    metrics = content["metrics"]
    for row in range(len(metrics["value"])):
        if all(metrics[column][row] == wanted for column, wanted in where.items()):
            metrics["value"][row] = None if value is None or math.isnan(value) else value
            metrics["n"][row] = n


def write(runs: Path, *cells: dict[str, Any]) -> Path:
    """Write cells as run folders and return ``runs``."""
    for content in cells:
        folder = runs / content["run_key"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / schema.CELL_FILE).write_text(
            json.dumps(content, ensure_ascii=False), encoding="utf-8"
        )
    return runs


def sweep(rules: Sequence[str], norms: Sequence[float], seeds: int, **more: Any) -> list[Any]:
    """Return every rule × C × seed, with a baseline per seed."""
    grid = [cell(r, c, s, **more) for r in rules for c in norms for s in range(seeds)]
    return [*grid, *(baseline(s, **more) for s in range(seeds))]
