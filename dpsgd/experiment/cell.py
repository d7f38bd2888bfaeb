"""Run one cell: from a plan to a finished run folder."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from analysis import schema
from dpsgd.data.bundle import holdout_is_public
from dpsgd.errors import BusyError, PrivacyError, UnwritableError
from dpsgd.experiment.allowed import Gate, gate_of, shown
from dpsgd.experiment.audited import audited
from dpsgd.experiment.claim import BEAT, Claim, claim
from dpsgd.experiment.files import (
    check_folder,
    read_json,
    write_bytes,
    write_json,
    write_text,
    write_whole,
)
from dpsgd.experiment.gradient_looks import write_gradients
from dpsgd.experiment.ledger import check_same_release, ledger_of, ledger_page
from dpsgd.experiment.ledger.evidence import at_the_end
from dpsgd.experiment.looked import ended, look_rows
from dpsgd.experiment.plan import Plan, solve
from dpsgd.experiment.prepared import Prepared
from dpsgd.experiment.record import (
    Status,
    cell_row,
    finished,
    label,
    predictions,
    write_config,
    write_table,
)
from dpsgd.experiment.remembered import cache_of
from dpsgd.experiment.resume import (
    Attempt,
    Checkpoints,
    Generations,
    Interrupts,
    attempt_of,
    interruptible,
)
from dpsgd.experiment.seal import sha256
from dpsgd.experiment.secret import keep_traceback, keyed, stored_secret
from dpsgd.experiment.sweep.index import Index
from dpsgd.experiment.training import recorder_of, trainer_of, watch_of
from dpsgd.metrics import evaluate_scores
from dpsgd.telemetry.recorder import Recorder
from dpsgd.training.canaries import Canaries
from dpsgd.training.evaluate import scores
from dpsgd.training.looks import Watch

MIN_N = 10
"""Slices with fewer examples have no ECE and cannot be the worst slice."""

Progress = Callable[[int, float | None, float | None], None]


@dataclass(frozen=True)
class Outcome:
    """A finished cell: its folder, ``cell.json``, ledger, whether it was finished before, and what
    the tracker wants shown.
    """

    folder: Path
    cell: dict[str, Any]
    ledger: dict[str, Any]
    repeated: bool
    tracked: str | None


def run_cell(prepared: Prepared, runs: Path, progress: Callable[[Plan], Progress]) -> Outcome:
    """Train a prepared cell unless ``runs`` holds it finished; return its outcome. Where an attempt
    was ended before, it goes on from its checkpoint.

    ``progress(plan)`` gives the callback of every step. Raises ConfigError or PrivacyError before
    training, and BusyError while another process has this cell; whatever is raised while training
    is kept in ``status.json``, of a released run in a private file. A file that cannot be written
    raises UnwritableError.
    """
    check_folder(runs, "runs_dir")
    folder = runs / prepared.run_key
    done = finished(folder)
    if done is not None:
        return _finished_before(prepared, folder, done)
    with claim(folder) as claimed:
        done = finished(folder)  # once more: whoever had it may have finished it
        if done is not None:
            return _finished_before(prepared, folder, done)
        return _run(prepared, runs, progress, claimed)


def _finished_before(prepared: Prepared, folder: Path, done: dict[str, Any]) -> Outcome:
    if prepared.cell.settings.release:
        stored_secret(prepared, folder)  # refuses other data before anything of these is shown
    Generations(folder).discard()
    ledger, tracker = read_json(folder / schema.LEDGER_FILE) or {}, prepared.cell.tracker
    tracker.open(folder)
    return Outcome(folder, done, ledger, True, tracker.upload(folder, done))


def _run(
    prepared: Prepared, runs: Path, progress: Callable[[Plan], Progress], claimed: Claim
) -> Outcome:
    started = time.perf_counter()
    folder = runs / prepared.run_key
    tracker, release = prepared.cell.tracker, prepared.cell.settings.release
    gate = gate_of(release=release)
    if release:
        stored_secret(prepared, folder)
    generations = Generations(folder)
    before = read_json(folder / schema.LEDGER_FILE)
    plan = solve(prepared, cache_of(runs))
    plan = replace(plan, prepared=keyed(prepared, folder))
    attempt = attempt_of(plan, before, generations.read(), folder, cache_of(runs))
    plan = attempt.training
    ledger = gate.ledger(attempt.ledger(ledger_of(attempt.plan)))
    reason = check_same_release(before, ledger, folder)
    if reason:
        raise PrivacyError(reason)
    tracker.open(folder)  # what is refused leaves nothing there
    index = Index(runs)
    with interruptible() as interrupts:
        status = Status(folder, gate, attempt.begun)
        index.begin(folder, label(plan))
        try:
            # The ledger is on disk, in full, before any parameter changes.
            write_config(folder, plan)
            durable = release or bool(attempt.repeats)
            write_json(folder / schema.LEDGER_FILE, ledger, durable=durable)
            write_page(folder, ledger, None)
            keeping = _Keeping(attempt, generations, interrupts, claimed)
            cell = gate.cell(_train(plan, folder, status, progress(plan), gate, started, keeping))
            claimed.check()
            write_json(folder / schema.CELL_FILE, cell)
            write_page(folder, ledger, at_the_end(cell, sha256(folder / schema.MODEL_FILE), runs))
            status.finish(cell["stopped_by"], cell.get("steps_taken", plan.steps))
            generations.discard()
        except BusyError:
            raise  # the folder is another's now, its status too
        except BaseException as error:
            status.fail(error)
            if isinstance(error, UnwritableError):
                raise error from None  # a file and what the system says of it: no data
            if release and isinstance(error, Exception):
                raise keep_traceback(folder, error) from None
            raise
    index.finish(folder)
    return Outcome(folder, cell, ledger, False, tracker.upload(folder, cell))


@dataclass(frozen=True)
class _Keeping:
    """What an attempt keeps its checkpoints by, and the run itself."""

    attempt: Attempt
    generations: Generations
    interrupts: Interrupts
    claimed: Claim

    def checkpoints(
        self, recorder: Recorder, watch: Watch | None, canaries: Canaries | None
    ) -> Checkpoints:
        every = self.attempt.plan.prepared.cell.settings.checkpoint
        return Checkpoints(
            self.generations, self.attempt.identity, self.attempt.content, every, self.interrupts,
            recorder=recorder, watch=watch, canaries=canaries,
        )  # fmt: skip


def write_page(folder: Path, ledger: dict[str, Any], evidence: dict[str, Any] | None) -> None:
    """Write the page of a ledger, and the evidence that it shows, if any is known yet."""
    if evidence is None:
        (folder / schema.EVIDENCE_FILE).unlink(missing_ok=True)
    else:
        write_json(folder / schema.EVIDENCE_FILE, evidence)
    write_text(folder / schema.LEDGER_PAGE, ledger_page(ledger, evidence))


def _train(
    plan: Plan, folder: Path, status: Status, progress: Progress, gate: Gate, started: float,
    keeping: _Keeping,
) -> dict[str, Any]:  # fmt: skip
    prepared, bundle = plan.prepared, plan.prepared.bundle
    trainer = trainer_of(plan)
    recorder = recorder_of(plan, trainer)
    before = time.perf_counter()
    watch = watch_of(plan)
    after = None if watch is None else watch.after
    checkpoints = keeping.checkpoints(recorder, watch, trainer.canaries)
    progressing = _with_heartbeat(shown(gate, progress), status, keeping.claimed)
    with keeping.interrupts.between_steps():
        trainer.run(bundle.train, recorder, progressing, after, checkpoints)
    ending = None if watch is None else watch.release()
    trained = time.perf_counter()
    released = plan.steps if ending is None else ending.released
    evaluation = gate.metrics(_evaluate(plan, folder, gate, released))
    evaluated = time.perf_counter()
    write_table(folder / schema.TELEMETRY_FILE, gate.rows(recorder.rows), schema.TELEMETRY)
    write_gradients(folder, gate, recorder)
    looked = gate.rows(look_rows(prepared.looks, ending, plan.steps))
    rows = [*looked, *evaluation.to_dict("records")]
    write_table(folder / schema.EVALUATION_FILE, rows, schema.EVALUATION)
    write_bytes(folder / schema.MODEL_FILE, _state(prepared))
    totals = pd.DataFrame(recorder.totals(), columns=list(schema.CELL_METRICS))
    totals = totals.astype(dict(schema.CELL_METRICS))
    audit = audited(plan, trainer.canaries, cache_of(folder.parent))
    found = [] if audit is None else audit.metrics
    attacks = pd.DataFrame(found, columns=list(schema.CELL_METRICS))
    attacks = attacks.astype(dict(schema.CELL_METRICS))
    parts = [part for part in (evaluation.drop(columns="step"), totals, attacks) if len(part)]
    metrics = pd.concat(parts, ignore_index=True)
    seconds = {
        "": time.perf_counter() - started + checkpoints.spent,
        "_training": trained - before + checkpoints.spent,
        "_evaluation": evaluated - trained,
    }
    row = cell_row(plan, metrics, seconds) | ended(ending)
    if audit is None:
        return row
    write_table(folder / schema.AUDIT_FILE, audit.rows, schema.AUDIT)
    return row | audit.summary


def _state(prepared: Prepared) -> bytes:
    # On the CPU, so that a machine without the device of this run can read it.
    state = {name: value.cpu() for name, value in prepared.model.state_dict().items()}
    buffer = io.BytesIO()
    # Not by its path: torch would put the name of a temporary file into the bytes, so that the same
    # weights had another hash each time, and a full disk would fail without saying why.
    torch.save(state, buffer)
    return buffer.getvalue()


def _evaluate(plan: Plan, folder: Path, gate: Gate, step: int) -> pd.DataFrame:
    prepared, cell, bundle = plan.prepared, plan.prepared.cell, plan.prepared.bundle
    release = "public" if cell.private and holdout_is_public(bundle) else "private"
    of_train = cell.slices.kinds_of_train()
    tail = cell.slices.tail_classes(bundle)
    tables, rows = [], []
    for split in (bundle.validation, bundle.test):
        slices = cell.slices.table(split, bundle)
        found = scores(prepared.model, split, cell.settings.device, bundle.task)
        tables.append(predictions(split, bundle, slices, found))
        rows.append(
            evaluate_scores(
                found, slices, tail, step=step, split=split.name,
                release=release, min_n=MIN_N,
                generator=prepared.streams.numpy("evaluation", step),
            )
        )  # fmt: skip
    table = pd.concat(tables, ignore_index=True)
    if gate.allows(release):
        write_whole(folder / schema.PREDICTIONS_FILE, lambda p: table.to_parquet(p, index=False))
    found = pd.concat(rows, ignore_index=True)
    if of_train:
        # These slices are made from training records, and the worst slice may be one of them.
        private = found["slice_kind"].isin(sorted(of_train)) | (found["metric"] == "tail_worst")
        found.loc[private, "release"] = "private"
    return found


def _with_heartbeat(
    progress: Callable[[int, float, float | None], None], status: Status, claimed: Claim
) -> Callable[[int, float, float | None], None]:
    last = time.monotonic()

    def step(number: int, loss: float, clip_fraction: float | None) -> None:
        nonlocal last
        status.at(number)
        progress(number, loss, clip_fraction)
        if time.monotonic() - last > BEAT:
            claimed.check()  # before anything is written into a folder that is another's now
            last = time.monotonic()
            status.beat(number)

    return step
