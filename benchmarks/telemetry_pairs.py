"""Two runs of one cell that share draws and noise, without and with telemetry inside ε."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysis import schema
from dpsgd.clipping.rule import State
from dpsgd.experiment.plan import Plan, solve
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.training import recorder_of, trainer_of
from dpsgd.python import resolved
from dpsgd.telemetry.oracle import Oracle, OracleRecorder
from dpsgd.telemetry.recorder import Bias, NoRecorder, Recorder, Row, StepFacts
from dpsgd.training.evaluate import probabilities


@dataclass(frozen=True)
class Interval:
    """What was said of a slice and what was true; NaN: nothing was said, or no unit was drawn."""

    where: str
    value: float
    lo: float
    hi: float
    true: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds the true fraction."""
        return self.lo <= self.true <= self.hi


@dataclass(frozen=True)
class Pair:
    """Tail accuracy without and with accounted telemetry, and the intervals of the latter: over
    the ``whole`` training, and of every window.
    """

    seed: int
    without: float
    counted: float
    whole: tuple[Interval, ...]
    windows: tuple[Interval, ...]


@dataclass
class Both:
    """Accounted telemetry with the raw one beside it: a diagnostic of this benchmark alone."""

    accounted: Recorder
    oracle: OracleRecorder
    rows: list[Row] = field(default_factory=list)
    clip_fraction: float | None = None

    def before(self, step: int, state: State) -> None:
        """Look at nothing."""

    def wants_bias(self, step: int) -> bool:
        """Return False."""
        return False

    def add(self, facts: StepFacts) -> None:
        """Give both the step."""
        self.accounted.add(facts)
        self.oracle.add(facts)

    def add_bias(self, step: int, values: Bias) -> None:
        """Keep nothing."""

    def finish(self) -> None:
        """Finish both."""
        self.accounted.finish()
        self.oracle.finish()

    def totals(self) -> list[Row]:
        """Return no rows: these are for comparing."""
        return []

    def state(self) -> dict[str, Any]:
        """Raise NotImplementedError: these trainings are not resumed."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raise NotImplementedError: these trainings are not resumed."""
        raise NotImplementedError


def pair(seed: int, settings: Mapping[str, Any], cache: Path) -> Pair:
    """Train a cell twice with common noise; raises ConfigError as ``dpsgd.train`` does."""
    one = planned({**settings, "seed": seed, "telemetry": "off"}, cache)
    trainer_of(one).run(one.prepared.bundle.train, NoRecorder(), _silent)
    two = planned({**settings, "seed": seed, "telemetry": "accounted"}, cache)
    trainer = trainer_of(two)
    both = Both(recorder_of(two, trainer), _oracle(two))
    trainer.run(two.prepared.bundle.train, both, _silent)
    true = [row for row in both.oracle.rows if row["stat"] == "clip_fraction"]
    said = [row for row in both.accounted.rows if row["stat"] == "clip_fraction"]
    of_all = [row for row in both.oracle.totals() if row["metric"] == "clip_fraction"]
    return Pair(
        seed, tail_accuracy(one), tail_accuracy(two),
        _compared(both.accounted.totals(), of_all), _compared(said, true),
    )  # fmt: skip


def planned(settings: Mapping[str, Any], cache: Path) -> Plan:
    """Return the plan of a cell whose streams are those of every other of its seed."""
    config = resolved({"tracker": "none", "debug.common_noise": True, **settings})
    return solve(prepare(read_cell(config)), cache)


def seconds_a_step(settings: Mapping[str, Any], cache: Path, repeats: int) -> dict[str, float]:
    """Return the fastest of ``repeats`` trainings by telemetry, which take turns, as s a step."""
    best: dict[str, float] = {}
    for _ in range(repeats):
        for telemetry in ("off", "accounted", "oracle", "probe"):
            plan = planned({**settings, "seed": 0, "telemetry": telemetry}, cache)
            trainer = trainer_of(plan)
            recorder = recorder_of(plan, trainer)
            start = time.perf_counter()
            trainer.run(plan.prepared.bundle.train, recorder, _silent)
            seconds = (time.perf_counter() - start) / plan.steps
            best[telemetry] = min(seconds, best.get(telemetry, math.inf))
    return best


def tail_accuracy(plan: Plan) -> float:
    """Return the accuracy on test examples of the tail's classes."""
    prepared = plan.prepared
    test = prepared.bundle.test
    tail = prepared.cell.slices.tail_classes(prepared.bundle)
    labels = test.labels.numpy()
    of_tail = np.isin(labels, tail)
    found = probabilities(prepared.model, test.inputs, trainer_of(plan).device).argmax(1)
    return float((found == labels)[of_tail].mean())


def _oracle(plan: Plan) -> OracleRecorder:
    prepared, cell = plan.prepared, plan.prepared.cell
    return Oracle("oracle", cell.telemetry.window, plan.steps + 1, None, None).start(
        cell.clip.unit, prepared.groups.names, prepared.slices.keys, prepared.slices.membership
    )


def _compared(said: list[Row], true: list[Row]) -> tuple[Interval, ...]:
    known = {_place(row): row["value"] for row in true}
    return tuple(
        Interval(
            f"{row['slice_kind']} {row['slice']}", row["value"], row["lo"], row["hi"],
            math.nan if known.get(_place(row)) is None else known[_place(row)],
        )
        for row in said
        if row.get("group", schema.GROUP_ALL) == schema.GROUP_ALL
    )  # fmt: skip


def _place(row: Row) -> tuple[Any, ...]:
    return row.get("step"), row["slice_kind"], row["slice"]


def _silent(step: int, loss: float, clip_fraction: float | None) -> None:
    """Show nothing."""
