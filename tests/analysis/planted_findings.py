"""Tables and predictions whose effects are known: none, or one rule that loses one label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis import schema

LABELS = ("0", "1", "2", "3")
PER_LABEL = 40
RULES = (("none", np.nan), ("flat", 0.1), ("flat", 1.0), ("per_layer", 0.1))
PRIVATE = (*((rule, norm, "neither" if rule == "none" else "private") for rule, norm in RULES),)
EVERY = (*PRIVATE, *((*pair, kind) for pair in RULES[1:] for kind in ("clip_only", "noise_only")))


def planted(
    generator: np.random.Generator,
    seeds: int,
    *,
    lost: float = 0.0,
    spread: float = 0.5,
    labels: Sequence[str] = LABELS,
    per_label: int = PER_LABEL,
    cells: Sequence[tuple[str, float, str]] = PRIVATE,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (table, predictions) of a baseline and three private conditions; of ``EVERY`` cell
    also with their diagnostics.

    Examples differ in how hard they are and seeds in how good they are, the same for all rules,
    but for flat clipping, which loses a share ``lost`` of the last label.
    """
    hard = generator.normal(1.5, 1.0, (len(labels), per_label))
    rows: list[dict[str, object]] = []
    parts: list[pd.DataFrame] = []
    for rule, norm, mechanism in cells:
        for seed in range(seeds):
            of_seed = generator.normal(0, spread)
            chance = 1 / (1 + np.exp(-(hard + of_seed)))
            right = generator.random(hard.shape) < chance
            if rule == "flat":
                right[-1] &= generator.random(per_label) >= lost
            sure = np.clip(chance + generator.normal(0, 0.05, hard.shape), 0.3, 1)
            more = "" if (rule, norm, mechanism) in PRIVATE else mechanism
            key = f"{rule}-{norm}-{seed}{more}"
            rows += _rows(_cell(rule, norm, seed, key, mechanism), right, labels, generator)
            parts.append(_predictions(key, right, sure, labels))
    return pd.DataFrame(rows), pd.concat(parts, ignore_index=True)


def _cell(rule: str, norm: float, seed: int, key: str, mechanism: str) -> dict[str, object]:
    private = mechanism == "private"
    return {
        "run_key": key, "baseline_key": f"none-nan-{seed}", "rule": rule, "clip_norm": norm,
        "mechanism": mechanism, "private": private, "model": "mlp",
        "data": "planted", "seed": seed, "data_seed": 0, "epsilon": 3.0 if private else np.inf,
        "epsilon_target": np.nan if mechanism == "neither" else 3.0,
        "delta": 1e-4 if private else np.nan,
        "noise_multiplier": 1.1, "accountant": "pld", "unit": "record", "unit_name": "record",
        "relation": "add_or_remove_one", "lr_scale": "by_norm", "config.data.holdout": "public",
        "steps_planned": 10, "batch": 10.0, "n_units": 100, "lr": 0.1, "label": key,
    }  # fmt: skip


def _rows(
    cell: dict[str, object],
    right: np.ndarray,
    labels: Sequence[str],
    generator: np.random.Generator,
) -> list[dict[str, object]]:
    places = [("all", "all", right.ravel()), *(("label", name, own)
              for name, own in zip(labels, right, strict=True))]  # fmt: skip
    rows = []
    for kind, name, own in places:
        for split in ("validation", "test"):
            for metric in ("accuracy", "recall"):
                rows.append((split, kind, name, metric, own.mean(), own.size))
        kept = 0.4 + generator.normal(0, 0.02)
        rows.append(
            ("train", kind, name, "kept", 1.0 if cell["mechanism"] == "neither" else kept, 1000)
        )
        rows.append(("train", kind, name, "clip_fraction", 0.5, 1000))
    for split in ("validation", "test"):
        for metric in ("macro_accuracy", "tail_worst"):
            rows.append((split, "all", "all", metric, right.mean(), right.size))
    names = ("split", "slice_kind", "slice", "metric", "value", "n")
    more = {"lo": np.nan, "hi": np.nan, "release": "private"}
    found = [{**dict(zip(names, row, strict=True)), **more, **cell} for row in rows]
    assert set(schema.CELL_METRICS) <= set(found[0])
    return found


def _predictions(
    key: str, right: np.ndarray, sure: np.ndarray, labels: Sequence[str]
) -> pd.DataFrame:
    label = np.repeat(np.arange(len(labels)), right.shape[1])
    return pd.DataFrame({
        "run_key": key, "example": np.arange(right.size), "split": "test", "label": label,
        "slice_label": np.repeat(np.array(labels, dtype=object), right.shape[1]),
        "predicted": np.where(right.ravel(), label, len(labels)), "confidence": sure.ravel(),
    })  # fmt: skip
