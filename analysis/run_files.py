"""The larger files of runs, read only when a figure wants them and only for the runs it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from analysis import schema
from analysis.gradient_file import AFTER, BEFORE, read_gradients

_THREADS = 8
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError)


def telemetry(runs: Path, keys: Iterable[str], stats: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the columns of ``schema.TELEMETRY`` and ``run_key``; ``stats`` limits the rows.

    Runs without a readable file have no rows.
    """

    def read(folder: Path) -> pd.DataFrame:
        filters = [("stat", "in", list(stats))] if stats else None
        path = folder / schema.TELEMETRY_FILE
        found = parquet.read_table(path, columns=list(schema.TELEMETRY), filters=filters)
        return found.to_pandas()

    return _each(runs, keys, read, list(schema.TELEMETRY))


def predictions(runs: Path, keys: Iterable[str], split: str = "test") -> pd.DataFrame:
    """Return predictions of one split: run_key, example, label, the columns of slices
    (``slice_<kind>``), ``predicted``, the class with the highest probability, and ``confidence``,
    that probability.
    """

    def read(folder: Path) -> pd.DataFrame:
        path = folder / schema.PREDICTIONS_FILE
        found = parquet.read_table(path, filters=[("split", "=", split)]).to_pandas()
        classes = [name for name in found if str(name).startswith("probability_")]
        probabilities = found[classes].to_numpy()
        found = found.drop(columns=classes)
        return found.assign(
            predicted=probabilities.argmax(1), confidence=probabilities.max(1).astype("float64")
        )

    return _each(runs, keys, read, ["example", "split", "label", "predicted", "confidence"])


def gradients(runs: Path, keys: Iterable[str]) -> pd.DataFrame:
    """Return the sampled units of runs: run_key and the columns of ``_GRADIENTS``, the norms those
    of whole gradients.
    """

    def read(folder: Path) -> pd.DataFrame:
        found = read_gradients(folder / schema.GRADIENTS_FILE)
        return pd.DataFrame(columns=_GRADIENTS) if found is None else found.loc[:, _GRADIENTS]

    return _each(runs, keys, read, _GRADIENTS)


_GRADIENTS = ["step", "side", "threshold", BEFORE, AFTER]


def ledgers(runs: Path, keys: Iterable[str]) -> pd.DataFrame:
    """Return one row a run and accountant: run_key, ``accountant``, ``epsilon``, ``bound`` (whether
    it is one, not an estimate) and ``certified`` (whether the run's ε is by it).
    """

    def read(folder: Path) -> pd.DataFrame:
        content = json.loads((folder / schema.LEDGER_FILE).read_text(encoding="utf-8"))
        rows: list[tuple[str, float, bool, bool]] = []
        for key, bound in (("epsilon_by_accountant", True), ("epsilon_estimates", False)):
            for name, epsilon in (content.get(key) or {}).items():
                if isinstance(epsilon, int | float):
                    certified = bound and name == content.get("certified_by")
                    rows.append((name, float(epsilon), bound, certified))
        return pd.DataFrame(rows, columns=_LEDGER)

    return _each(runs, keys, read, _LEDGER)


_LEDGER = ["accountant", "epsilon", "bound", "certified"]


def _each(
    runs: Path, keys: Iterable[str], read: Callable[[Path], pd.DataFrame], columns: list[str]
) -> pd.DataFrame:
    def of_run(key: str) -> pd.DataFrame | None:
        try:
            return read(runs / key).assign(run_key=key)
        except _UNREADABLE:
            return None

    with ThreadPoolExecutor(_THREADS) as pool:
        found = [part for part in pool.map(of_run, keys) if part is not None and len(part)]
    if not found:
        return pd.DataFrame({name: [] for name in ["run_key", *columns]})
    return pd.concat(found, ignore_index=True)
