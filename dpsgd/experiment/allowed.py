"""What may leave a run with ``release=true``: this list, and nothing that is not on it.

Everything that such a run writes or shows passes here first. A row must say that it is public or
accounted; a key must be named below. What is new stays inside until someone has thought about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from analysis import schema
from dpsgd.errors import PrivacyError

_OF_MODELS = frozenset(schema.METRICS) - frozenset(schema.METRICS_OF_AUDIT)
ROWS: Mapping[str, frozenset[str]] = {
    "public": frozenset((*schema.STATS_OF_PROBE, *_OF_MODELS)),
    "accounted": frozenset(("clip_fraction", "units", "threshold", schema.LOOK)),
}
"""Statistics and metrics that rows may hold, by what the rows say that they are released as."""

CELL = frozenset({
    "schema", "run_key", "baseline_key", "label", "status", "rule", "clip_norm", "mechanism",
    "private", "diagnostic", "model", "data", "seed", "data_seed", "unit", "unit_name", "relation",
    "accountant", "epsilon", "epsilon_target", "delta", "noise_multiplier", "batch", "steps",
    "steps_planned", "stopped_by", "n_units", "shape", "lr", "lr_scale", "telemetry",
    "result_version", "finished_at", "metrics", "steps_taken", "step_released", "looks_taken",
})  # fmt: skip
"""Keys of ``cell.json``, with those of the configuration. Not how long it took, and not the size of
micro-batches, which may follow from how many records users have."""

CONFIGURED = "config."
"""What begins so is configuration, chosen before the data were read."""

STATUS = frozenset({
    "status", "pid", "host", "started_at", "heartbeat", "step", "attempts", "stopped_by", "files",
})  # fmt: skip
"""Keys of ``status.json``. Not the traceback, whose message may quote a record."""

TIMES = frozenset({"started_at", "heartbeat", "finished_at"})
"""Times that leave as their day: differences between them follow from the batches drawn."""

LEDGER = frozenset({
    "ledger_version", "run_key", "mechanism", "private", "release", "unit", "unit_name", "relation",
    "neighbours", "n_units", "n_units_declared", "delta", "delta_why", "epsilon", "epsilon_target",
    "noise_multiplier", "certified_by", "accountant", "conversion", "epsilon_by_accountant",
    "epsilon_estimates", "clip_rule", "clip_groups", "scale", "query_scale", "envelope", "shares",
    "sampler", "telemetry", "steps_planned", "steps", "stopped_by", "entries", "not_covered",
    "slice_statistics", "data", "data_statistics", "data_fingerprint", "stream_id", "common_noise",
    "randomness", "keying", "floating_point", "environment", "code", "own_code", "result_version",
    "config_hash", "decisions", "charged_again",
})  # fmt: skip
"""Keys of ``ledger.json``."""


class Gate:
    """Lets everything through, as of a run that nobody releases."""

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the rows of a table that may be written."""
        return list(rows)

    def metrics(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of ``table`` that may be written."""
        return table

    def cell(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of ``cell.json`` that may be written."""
        return dict(cell)

    def status(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of ``status.json`` that may be written."""
        return dict(status)

    def ledger(self, ledger: dict[str, Any]) -> dict[str, Any]:
        """Return the ledger."""
        return ledger

    def loss(self, loss: float) -> float | None:
        """Return the training loss of a step, as far as it may be shown."""
        return loss

    def allows(self, release: str) -> bool:
        """Whether what is released as ``release`` may be written."""
        return release in schema.RELEASES


class Released(Gate):
    """Lets through what is on the list of this page."""

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the rows whose statistic is on the list for what they are released as."""
        return [row for row in rows if _listed(row)]

    def metrics(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows whose metric is on that list."""
        named = zip(table["metric"], table["release"], strict=True)
        listed = [_listed({"metric": metric, "release": release}) for metric, release in named]
        return table.loc[listed].reset_index(drop=True)

    def cell(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of the list, of metrics the rows and columns that are allowed."""
        kept = {k: v for k, v in cell.items() if k in CELL or k.startswith(CONFIGURED)}
        columns = {name: cell["metrics"][name] for name in schema.CELL_METRICS}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        allowed = self.rows(rows)
        return _days(kept | {"metrics": {n: [row[n] for row in allowed] for n in columns}})

    def status(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of the list; whose process it was only while it runs."""
        kept = {k: v for k, v in status.items() if k in STATUS}
        if status["status"] != "RUNNING":
            kept = {k: v for k, v in kept.items() if k not in ("pid", "host")}
        return _days(kept)

    def ledger(self, ledger: dict[str, Any]) -> dict[str, Any]:
        """Return the ledger. Raises PrivacyError for a key that is not on the list: a ledger
        without it would tell half of the story.
        """
        unknown = sorted(ledger.keys() - LEDGER)
        if unknown:
            raise PrivacyError(f"ledger key {unknown[0]!r}: nobody has said that it may leave")
        return ledger

    def loss(self, loss: float) -> None:
        """Return None: the loss of a batch is raw."""

    def allows(self, release: str) -> bool:
        """Whether ``release`` is public or accounted."""
        return release in ROWS


def gate_of(*, release: bool) -> Gate:
    """Return what a run's outputs pass through."""
    return Released() if release else Gate()


def shown(
    gate: Gate, progress: Callable[[int, float | None, float | None], None]
) -> Callable[[int, float, float | None], None]:
    """Return ``progress`` behind the gate.

    The clip fraction is the telemetry's own: one that is neither accounted nor public is refused
    before a released run begins.
    """
    return lambda step, loss, clip_fraction: progress(step, gate.loss(loss), clip_fraction)


def _listed(row: Mapping[Any, Any]) -> bool:
    name = row["stat"] if "stat" in row else row.get("metric")
    return name in ROWS.get(str(row.get("release")), ())


def _days(values: dict[str, Any]) -> dict[str, Any]:
    return {k: str(v)[:10] if k in TIMES else v for k, v in values.items()}
