"""Names and dtypes of everything that a run leaves behind. Standard library only.

Training writes by this page and the atlas reads by it; it is all that ``dpsgd`` may import from
``analysis``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SCHEMA_VERSION = 1

PROBE = "probe"
"""Public records that stand in for those of training (``telemetry=probe``)."""

AUDIT_SPLIT = "audit"
"""Training records with a coin (``audit=canaries``, ``audit=membership``)."""

SPLITS = ("train", "validation", "test", PROBE, AUDIT_SPLIT)
CANARY = "canary"
"""The kind of slice that holds canaries by what they were made into."""

SLICE_KINDS = ("all", "label", "rarity", "column", "pair", "bins", "user_size", "ids", CANARY)
RELEASES = ("public", "accounted", "private")

QUANTILES = (10, 25, 50, 75, 90)
STATS_BY_SLICE = (
    "units",
    "clip_fraction",
    "kept",
    *(f"norm_before_q{q}" for q in QUANTILES),
    *(f"norm_after_q{q}" for q in QUANTILES),
    "dropped",
)
STATS_OF_BATCH = ("cosine", "relative_length", "noise_norm", "snr", "loss", "threshold")
STATS_OF_PROBE = tuple(f"{PROBE}_{stat}" for stat in STATS_BY_SLICE if stat != "dropped")
STATS = STATS_BY_SLICE + STATS_OF_BATCH + STATS_OF_PROBE

METRICS_BY_SLICE = ("accuracy", "recall", "nll", "brier", "ece", "ece_calibrated")
METRICS_OVERALL = ("macro_accuracy", "tail_worst", "tail_band")
METRICS_OF_TRAINING = ("clip_fraction", "kept")
METRICS_OF_AUDIT = (
    "exposure",
    "exposure_extrapolated",
    "exposure_gap",
    "membership_auc",
    "membership_auc_gap",
    "tpr_at_1pct",
    "tpr_at_01pct",
)
"""Exposure in bits, mean over the included canaries; area under the ROC curve of a threshold on the
loss, and its true positive rate at 1 % and at 0.1 % false positives. A gap is a slice's value minus
that of all other records with a coin that are of a slice (random inputs are of none), with the
interval of that difference."""

LOOK = "look"
"""Accuracy on the validation split as decisions during training saw it, at the step of each look:
release ``accounted`` if it is noised, with the 95 % interval of that noise."""
METRICS = (
    *METRICS_BY_SLICE,
    *METRICS_OVERALL,
    *METRICS_OF_TRAINING,
    *METRICS_OF_AUDIT,
    LOOK,
)

GROUP_ALL = "all"
"""The clip group that stands for all of them: clipped in any, kept over the joint norm."""

TELEMETRY: Mapping[str, str] = MappingProxyType(
    {
        "step": "int64",
        "unit": "string",
        "slice_kind": "string",
        "slice": "string",
        "group": "string",
        "stat": "string",
        "value": "float64",
        "n": "int64",
        "lo": "float64",
        "hi": "float64",
        "release": "string",
    }
)
"""Rows of release ``accounted`` hold estimates from noised counts: ``lo`` and ``hi`` are the 95 %
interval of that noise, and ``n`` is the noised number of units that were drawn, 0 where it came out
below. No value and an interval of [0, 1] mean that there are too few units to say anything. Other
rows have no interval."""

EVALUATION: Mapping[str, str] = MappingProxyType(
    {
        "step": "int64",
        "split": "string",
        "slice_kind": "string",
        "slice": "string",
        "metric": "string",
        "value": "float64",
        "n": "int64",
        "lo": "float64",
        "hi": "float64",
        "release": "string",
    }
)

AUDIT: Mapping[str, str] = MappingProxyType(
    {
        "canary": "int64",
        "kind": "string",
        "slice": "string",
        "example": "string",
        "included": "bool",
        "score": "float64",
        "nll": "float64",
        "release": "string",
    }
)
"""A row a coin: how it fell, and a score that grows with how likely its record was in. Private: the
coins are the randomness that an audit's bounds rest on."""

GRADIENTS: Mapping[str, str] = MappingProxyType(
    {
        "step": "int64",
        "unit": "string",
        "example": "string",
        "side": "string",
        "weight": "float32",
        "threshold": "float64",
        "projection_1": "float32",
        "projection_2": "float32",
        "release": "string",
    }
)
"""A row a sampled unit and look, all private: the gradient that ``step`` starts from. ``side`` is
head or tail, or nothing for a unit that is neither; ``weight`` how many units of its side (or of
those beside the tail) it stands for. Beside these columns there are ``slice_<heading>``, as in the
predictions, and for each clip group ``norm_before_<group>`` and ``norm_after_<group>``. The first
axis of the projection is the direction of the head's mean, the second that of what is left of the
tail's mean beside it; without one of them its column is empty."""

SLICE_COLUMN = "slice_"
NORM_BEFORE, NORM_AFTER = "norm_before_", "norm_after_"

CELL_METRICS: Mapping[str, str] = MappingProxyType(
    {name: dtype for name, dtype in EVALUATION.items() if name != "step"}
)
"""``cell.json`` holds these as columns under ``metrics``: final evaluation, and clip fraction and
kept over the whole of training (``split`` train, or ``probe`` where public records stood in). With
accounted telemetry there is no kept, and the clip fraction is noised, as in ``TELEMETRY``."""

STATUSES = ("RUNNING", "FINISHED", "FAILED", "KILLED")
MECHANISMS = ("private", "clip_only", "noise_only", "neither")

TELEMETRY_FILE = "telemetry.parquet"
EVALUATION_FILE = "evaluation.parquet"
PREDICTIONS_FILE = "predictions.parquet"
CELL_FILE = "cell.json"
STATUS_FILE = "status.json"
LEDGER_FILE = "ledger.json"
LEDGER_PAGE = "ledger.md"
EVIDENCE_FILE = "evidence.json"
CONFIG_FILE = "config.yaml"
MODEL_FILE = "model.pt"
AUDIT_FILE = "audit.parquet"
GRADIENTS_FILE = "gradients.parquet"
INDEX_FILE = "index.jsonl"
"""Beside the run folders: a line for each cell that began or finished. It may be deleted."""
SWEEPS_FOLDER = "sweeps"
"""Beside the run folders: ``<name>.json`` for each sweep, with the run keys of its cells."""
