"""The run folder: status, tables and the flat row that the atlas reads."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import socket
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis import schema
from dpsgd.accounting import format_epsilon
from dpsgd.auditing.settings import NoAudit
from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import UnwritableError
from dpsgd.experiment.allowed import Gate
from dpsgd.experiment.clock import now
from dpsgd.experiment.files import read_json, write_json, write_text, write_whole
from dpsgd.experiment.identity import cell_config, flat_config, infinities_as_words
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.seal import sealed_files
from dpsgd.experiment.settings import Cell
from dpsgd.experiment.version import RESULT_VERSION
from dpsgd.metrics import Scores
from dpsgd.slices import SliceTable


class Status:
    """``status.json`` of one attempt: RUNNING until told otherwise, with a heartbeat.

    ``begun`` is the step after which it began; ``attempts`` counts it in. Only what ``gate`` lets
    through is written.
    """

    def __init__(self, folder: Path, gate: Gate, begun: int = 0) -> None:
        self._folder, self._gate = folder, gate
        self._file = folder / schema.STATUS_FILE
        before = read_json(self._file)
        attempts = int(before.get("attempts", 1)) + 1 if isinstance(before, dict) else 1
        self._value: dict[str, Any] = {
            "status": "RUNNING", "pid": os.getpid(), "host": socket.gethostname(),
            "started_at": now(), "heartbeat": now(), "step": begun, "begun": begun,
            "attempts": attempts,
        }  # fmt: skip
        self._write()

    def at(self, step: int) -> None:
        """Remember that ``step`` was taken; written with the next thing that is."""
        self._value["step"] = step

    def beat(self, step: int) -> None:
        """Say that the run is alive, at ``step``."""
        self._value |= {"heartbeat": now(), "step": step}
        self._write()

    def finish(self, stopped_by: str, step: int) -> None:
        """Say that everything is written, and bind the files by their SHA-256."""
        self._value |= {"status": "FINISHED", "stopped_by": stopped_by, "heartbeat": now(),
                        "step": step, "files": sealed_files(self._folder)}  # fmt: skip
        self._write()

    def fail(self, error: BaseException) -> None:
        """Keep the traceback of a run that failed, or that was interrupted.

        On a disk that is full the run is left RUNNING, of a process that will be gone.
        """
        killed = isinstance(error, KeyboardInterrupt | SystemExit)
        self._value |= {
            "status": "KILLED" if killed else "FAILED", "heartbeat": now(),
            "stopped_by": getattr(error, "stopped_by", type(error).__name__),
            "traceback": "".join(traceback.format_exception(error)),
        }  # fmt: skip
        with contextlib.suppress(UnwritableError):
            self._write()

    def _write(self) -> None:
        write_json(self._file, self._gate.status(self._value))


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the cell of a finished run, or None."""
    status = read_json(folder / schema.STATUS_FILE)
    if not isinstance(status, dict) or status.get("status") != "FINISHED":
        return None
    cell = read_json(folder / schema.CELL_FILE)
    return cell if isinstance(cell, dict) else None


def write_config(folder: Path, plan: Plan) -> None:
    """Write the resolved configuration."""
    text = yaml.safe_dump(cell_config(plan.prepared.cell), sort_keys=False, allow_unicode=True)
    write_text(folder / schema.CONFIG_FILE, text)


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, str]) -> None:
    """Write tidy rows as parquet with these columns and dtypes."""
    frame = pd.DataFrame(list(rows), columns=list(dtypes)).astype(dict(dtypes))
    write_whole(path, lambda p: frame.to_parquet(p, index=False))


def predictions(split: Split, bundle: Bundle, slices: SliceTable, scores: Scores) -> pd.DataFrame:
    """Return the rows of ``predictions.parquet`` for one split: class probabilities, or of task
    ``tokens`` each example's mean nll and accuracy.
    """
    columns: dict[str, Any] = {"example": split.example, "split": split.name}
    in_slices = {f"slice_{kind}": values for kind, values in slices.columns().items()}
    if scores.probabilities is None:
        return pd.DataFrame(columns | in_slices | {"nll": scores.nll, "accuracy": scores.correct})
    columns |= {"label": split.labels.numpy()} | in_slices
    for i, name in enumerate(bundle.classes):
        columns[f"probability_{name}"] = scores.probabilities[:, i].astype(np.float32)
    return pd.DataFrame(columns)


def cell_row(plan: Plan, metrics: pd.DataFrame, seconds: Mapping[str, float]) -> dict[str, Any]:
    """Return ``cell.json``: configuration and outcome as flat scalars, metrics as columns."""
    prepared, cell = plan.prepared, plan.prepared.cell
    settings = cell.settings
    return {
        "schema": schema.SCHEMA_VERSION,
        "run_key": prepared.run_key,
        "baseline_key": prepared.baseline_key,
        "label": label(plan),
        "status": "FINISHED",
        "rule": cell.clip.name,
        "clip_norm": getattr(cell.clip, "norm", None),
        "mechanism": settings.mechanism,
        "private": cell.private,
        "diagnostic": not cell.private,
        "model": cell.model.name,
        "data": cell.data.name,
        "seed": settings.seed,
        "data_seed": cell.data.seed,
        "unit": prepared.sampler.unit,
        "unit_name": settings.unit_name or prepared.sampler.unit,
        "relation": settings.relation,
        "accountant": cell.accountant.name,
        "epsilon": infinities_as_words(plan.epsilon),
        "epsilon_target": infinities_as_words(settings.epsilon),
        "delta": prepared.delta,
        "noise_multiplier": plan.noise_multiplier,
        "batch": settings.batch,
        "micro_batch": prepared.micro_batch,
        "steps": plan.steps,
        "steps_planned": prepared.steps,
        "stopped_by": plan.stopped_by,
        "n_units": prepared.sampler.n_units,
        "shape": dataclasses.asdict(prepared.shape),
        "lr": cell.optim.lr,
        "lr_scale": cell.optim.lr_scale,
        "telemetry": cell.telemetry.name,
        "result_version": str(RESULT_VERSION),
        "finished_at": now(),
        **{f"seconds{name}": round(value, 3) for name, value in seconds.items()},
        **flat_config(cell),
        "metrics": {
            name: [_null(v) for v in metrics[name].tolist()] for name in schema.CELL_METRICS
        },
    }


def label(plan: Plan) -> str:
    """Return a short name for people: ``per_layer C=1 ε=3 s0``, or ``baseline ε=∞ s0``; of an
    audited run ``flat C=1 ε=3 audit=canaries s0``.
    """
    return label_of(plan.prepared.cell, plan.epsilon)


def label_of(cell: Cell, reached: float | None) -> str:
    """Return :func:`label` of a cell that has ``reached`` an ε; None: its noise is not known yet,
    which matters where no ε is aimed for.
    """
    audit = "" if isinstance(cell.audit, NoAudit) else f" audit={cell.audit.name}"
    if cell.settings.mechanism == "neither":
        return f"baseline ε=∞{audit} s{cell.settings.seed}"
    norm = getattr(cell.clip, "norm", None)
    unit = " per user" if cell.clip.unit == "user" and cell.clip.name != "user_level" else ""
    threshold = f" C={norm:g}" if norm is not None else ""
    mechanism = "" if cell.settings.mechanism == "private" else f" {cell.settings.mechanism}"
    epsilon = cell.settings.epsilon if cell.private else math.inf
    if epsilon is None or (reached is not None and reached > epsilon):
        epsilon = reached  # steps that were charged again take it beyond what was aimed for
    shown = "?" if epsilon is None else format_epsilon(epsilon)
    rule = f"{cell.clip.name}{unit}{threshold}{mechanism}"
    return f"{rule} ε={shown}{audit} s{cell.settings.seed}"


def _null(value: Any) -> Any:
    return (
        None if value is None or (isinstance(value, float) and not math.isfinite(value)) else value
    )
