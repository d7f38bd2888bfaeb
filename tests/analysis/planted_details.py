"""Write beside planted cells what else a run leaves: config, ledger, norms, predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from planted_cells import BANDS, LABELS, TAIL_LABEL, slices

from analysis import schema

STEPS = (100, 200, 300)
PER_LABEL = 9
CONFIG: dict[str, Any] = {
    "epsilon": 3.0,
    "delta": None,
    "mechanism": "private",
    "seed": 0,
    "batch": 256.0,
    "runs_dir": "runs",
    "clip": {"_target_": "dpsgd.clipping.flat.Flat", "name": "flat", "unit": "record", "norm": 1.0},
    "data": {"_target_": "x.Y", "name": "mnist_tail", "class": "8", "keep": 0.25},
    "model": {"_target_": "x.Z", "name": "mlp", "hidden": [128], "activation": "tanh"},
    "tracker": {"_target_": "x.T", "name": "none"},
}
LEDGER: dict[str, Any] = {
    "private": True,
    "unit": "record",
    "unit_name": "record",
    "relation": "add_or_remove_one",
    "delta": 1e-4,
    "epsilon": 2.99854409,
    "noise_multiplier": 1.659,
    "certified_by": "pld",
    "epsilon_by_accountant": {"pld": 2.99854409, "rdp": 3.348393},
    "sampler": {"stated": "every record flips its own coin", "sampling_probability": 0.069},
    "steps": 290,
    "n_units": 3700,
    "not_covered": ["telemetry.parquet: raw norms", "other runs on the same data"],
    "randomness": "Randomness is keyed by the seed.",
}


def write_details(
    folder: Path,
    labels: Sequence[str] = LABELS,
    config: dict[str, Any] = CONFIG,
    ledger: dict[str, Any] = LEDGER,
) -> None:
    """Write every file of a run but its cell into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / schema.CONFIG_FILE).write_text(yaml.safe_dump(config, sort_keys=False))
    (folder / schema.LEDGER_FILE).write_text(json.dumps(ledger))
    telemetry(slices(labels)).to_parquet(folder / schema.TELEMETRY_FILE, index=False)
    predictions(labels).to_parquet(folder / schema.PREDICTIONS_FILE, index=False)


def telemetry(places: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Return norms before = step·q/1000 and after = at most 1, of every place."""
    rows = [
        (step, "record", kind, name, "all", f"norm_{side}_q{q}",
         step * q / 1000 if side == "before" else min(1.0, step * q / 1000), 50, "private")
        for step in STEPS
        for kind, name in places
        for side in ("before", "after")
        for q in schema.QUANTILES
    ]  # fmt: skip
    rows += [
        (step, "record", "all", "all", "all", "threshold", 1.0, 0, "private") for step in STEPS
    ]
    names = ["step", "unit", "slice_kind", "slice", "group", "stat", "value", "n", "release"]
    return pd.DataFrame(rows, columns=names)


def predictions(labels: Sequence[str] = LABELS) -> pd.DataFrame:
    """Return ``PER_LABEL`` test rows of every label: of each, two in three are right, at .8."""
    rows: list[dict[str, Any]] = []
    for place, label in enumerate(labels):
        for row in range(PER_LABEL):
            said = place if row % 3 else (place + 1) % len(labels)
            shares = np.full(len(labels), 0.2 / max(1, len(labels) - 1), dtype=np.float32)
            shares[said] = 0.8
            band = BANDS[1] if label == TAIL_LABEL else BANDS[0]
            rows.append(
                {"example": row, "split": "test", "label": place, "slice_label": label,
                 "slice_rarity": band, **{f"probability_{i}": p for i, p in enumerate(shares)}}
            )  # fmt: skip
    return pd.DataFrame(rows)


def gradients(points: int = 40) -> pd.DataFrame:
    """Return measured gradients: two groups of clipping, a tenth of the examples in the tail."""
    place = np.arange(points)
    rare = place % 10 == 0
    return pd.DataFrame({
        "step": 100,
        "example": place,
        "slice_rarity": np.where(rare, "tail", "head"),
        "weight": np.where(rare, 0.5, 20.0),
        "norm_before_1": np.where(rare, 3.0, 0.6),
        "norm_before_2": np.where(rare, 4.0, 0.8),
        "norm_after_1": 0.6,
        "norm_after_2": 0.8,
        "projection_1": np.where(rare, 0.1, 1.0),
        "projection_2": np.where(rare, 4.0, 0.1),
    })  # fmt: skip
