"""A finished run, opened: model, tables, ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import yaml
from torch import nn

from analysis import schema
from dpsgd.errors import ConfigError
from dpsgd.experiment.files import read_json
from dpsgd.experiment.record import finished
from dpsgd.experiment.settings import read_cell
from dpsgd.models.shape import DataShape

FOLDER = "name the folder of runs: DIR, --runs-dir DIR or runs_dir=DIR"


@dataclass(frozen=True)
class Run:
    """A finished run's folder. Tables are read when first asked for.

    ``cell`` is the flat row that the atlas reads, ``ledger`` the privacy ledger.
    """

    folder: Path
    cell: dict[str, Any]
    ledger: dict[str, Any]

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """``telemetry.parquet``: rows of ``schema.TELEMETRY``. Private if ``release`` says so."""
        return pd.read_parquet(self.folder / schema.TELEMETRY_FILE)

    @cached_property
    def evaluation(self) -> pd.DataFrame:
        """``evaluation.parquet``: rows of ``schema.EVALUATION``."""
        return pd.read_parquet(self.folder / schema.EVALUATION_FILE)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """``predictions.parquet``: a row an example of validation and test."""
        return pd.read_parquet(self.folder / schema.PREDICTIONS_FILE)

    @cached_property
    def config(self) -> dict[str, Any]:
        """``config.yaml``, resolved."""
        return yaml.safe_load((self.folder / schema.CONFIG_FILE).read_text(encoding="utf-8"))

    def model(self) -> nn.Module:
        """Return the trained model in evaluation mode; the data are not read."""
        shape = DataShape(
            tuple(self.cell["shape"]["inputs"]), self.cell["shape"]["classes"],
            self.cell["shape"]["vocabulary"], self.cell["shape"]["task"],
        )  # fmt: skip
        model = read_cell(self.config).model.build(shape)
        state = torch.load(self.folder / schema.MODEL_FILE, map_location="cpu", weights_only=True)
        model.load_state_dict(state)
        return model.eval()


def load(run: str | Path, runs_dir: str | Path = "runs") -> Run:
    """Open a finished run by its folder, or by the first digits of its key in ``runs_dir``.

    Raises ConfigError if there is no such run, more than one, or one that did not finish.
    """
    folder = run_folder(Path(run), Path(runs_dir))
    cell = finished(folder)
    if cell is None:
        status = read_json(folder / schema.STATUS_FILE) or {}
        raise ConfigError(
            "run", folder, f"is not finished (status {status.get('status', 'unknown')}); "
            "the same command trains it again",
        )  # fmt: skip
    return Run(folder, cell, read_json(folder / schema.LEDGER_FILE) or {})


def run_folder(run: Path, runs_dir: Path) -> Path:
    """Return the folder of a run, given it or the first digits of its key. Raises ConfigError."""
    if (run / schema.STATUS_FILE).exists() or (run / schema.LEDGER_FILE).exists():
        return run
    if run.is_absolute() or len(run.parts) != 1:
        why = "holds no run" if run.is_dir() else "there is no such folder"
        raise ConfigError("run", run, why)
    if not runs_dir.is_dir():
        raise ConfigError("runs_dir", runs_dir, "is no folder", FOLDER)
    kinds = (schema.STATUS_FILE, schema.LEDGER_FILE)
    found = sorted({f.parent for kind in kinds for f in runs_dir.glob(f"{run.name}*/{kind}")})
    if len(found) == 1:
        return found[0]
    keys = ", ".join(f.name for f in found[:5]) if found else "none"
    raise ConfigError(
        "run", run, f"must be a run's folder, or the start of one key in {runs_dir} (found: {keys})"
    )
