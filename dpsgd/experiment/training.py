"""From a plan to the trainer that carries it out, and the recorder that watches it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from dpsgd.clipping.joint import Joint
from dpsgd.data.bundle import holdout_is_public
from dpsgd.experiment.audited import canaries_of
from dpsgd.experiment.gradient_looks import gradients_of
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.watching import counted_slices, of_units
from dpsgd.telemetry.oracle import OracleRecorder
from dpsgd.telemetry.probe import Measured, Probe, ProbeRecorder
from dpsgd.telemetry.recorder import Recorder
from dpsgd.training.looks import Watch
from dpsgd.training.loop import Trainer
from dpsgd.training.micro import Capture
from dpsgd.training.optim import CLIPPED


def trainer_of(plan: Plan) -> Trainer:
    """Return the trainer of a plan, which trains the prepared model in place."""
    prepared, cell = plan.prepared, plan.prepared.cell
    return Trainer(
        model=prepared.model, loss=prepared.loss, engine=cell.engine, rule=prepared.rule,
        groups=prepared.groups, micro_batch=prepared.micro_batch, sampler=prepared.sampler,
        combine=prepared.sampler.combine,
        info=prepared.info, optim=cell.optim, mechanism=cell.settings.mechanism,
        noise_multiplier=plan.noise_multiplier, steps=plan.steps, streams=prepared.streams,
        device=cell.settings.device, stops_on_rows=not cell.settings.release,
        canaries=canaries_of(plan),
        present=None if prepared.coins is None else prepared.coins.present,
    )  # fmt: skip


def recorder_of(plan: Plan, trainer: Trainer) -> Recorder:
    """Return the recorder that the cell's telemetry asks for."""
    prepared, cell = plan.prepared, plan.prepared.cell
    unit, names = cell.clip.unit, prepared.groups.names
    telemetry: Any = cell.telemetry
    if isinstance(prepared.rule, Joint):
        keys = counted_slices(cell, prepared.bundle).keys
        return telemetry.start(
            prepared.rule, names, keys, plan.noise_multiplier, prepared.sampler.expected_units
        )
    if isinstance(telemetry, Probe):
        return _probe(plan, trainer, telemetry)
    membership = of_units(cell, prepared.bundle, prepared.slices.membership)
    recorder = telemetry.start(unit, names, prepared.slices.keys, membership)
    if isinstance(recorder, OracleRecorder):
        recorder.gradients = gradients_of(plan, trainer, recorder.settings, membership)
    return recorder


def watch_of(plan: Plan) -> Watch | None:
    """Return what looks at the model while it is trained, if anything is decided."""
    prepared = plan.prepared
    if prepared.looks is None:
        return None
    return Watch(prepared.looks, prepared.model, prepared.streams, plan.steps)


def _probe(plan: Plan, trainer: Trainer, probe: Probe) -> ProbeRecorder:
    prepared, cell, bundle = plan.prepared, plan.prepared.cell, plan.prepared.bundle
    split, device = bundle.validation, trainer.device
    rows = probe.chosen(len(split))
    info = {}
    if cell.clip.partition is not None:
        member = cell.slices.part(cell.clip.partition, split, bundle)[1][rows]
        info[cell.clip.partition] = torch.from_numpy(member).to(device)
    measured = Measured(
        inputs=split.inputs[rows].to(device), targets=split.labels[rows].to(device), info=info,
        membership=cell.slices.table(split, bundle).membership[rows],
        capture=Capture(cell.engine, prepared.model, prepared.loss, prepared.groups, None),
        rule=cell.clip, micro_batch=prepared.micro_batch,
        clipping=cell.settings.mechanism in CLIPPED,
        streams=replace(prepared.streams, run_key=f"{prepared.streams.run_key} probe"),
        device=device,
    )  # fmt: skip
    release = "public" if cell.private and holdout_is_public(bundle) else "private"
    return ProbeRecorder(
        probe, cell.clip.unit, prepared.groups.names, prepared.slices.keys, release, measured
    )
