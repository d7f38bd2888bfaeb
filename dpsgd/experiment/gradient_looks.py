"""Which units of a run are looked at one by one, and the file that keeps what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from analysis import schema
from dpsgd.experiment.allowed import Gate
from dpsgd.experiment.files import write_whole
from dpsgd.experiment.plan import Plan
from dpsgd.sampling.sampler import Draw
from dpsgd.sampling.units import RecordUnits, UserUnits
from dpsgd.telemetry.gradients import GradientRecorder, Sampled, looks_at, most_units
from dpsgd.telemetry.oracle import Oracle, OracleRecorder
from dpsgd.telemetry.recorder import Recorder, Row
from dpsgd.telemetry.sides import Sides, sample, sides_of
from dpsgd.training.loop import Trainer
from dpsgd.training.micro import Capture
from dpsgd.training.optim import CLIPPED


def gradients_of(
    plan: Plan, trainer: Trainer, settings: Oracle, membership: np.ndarray
) -> GradientRecorder | None:
    """Return what looks at single units, ``membership`` ``[n_units, slices]``; None if nothing is
    to be looked at.
    """
    prepared = plan.prepared
    if not (settings.gradient_looks and settings.gradient_units):
        return None
    there = _there(plan, trainer)[: len(membership)]  # an audit's own units come last
    membership = membership & there[:, np.newaxis]
    sides = sides_of(prepared.slices.keys, membership)
    most = most_units(settings.gradient_units, settings.gradient_looks, len(trainer.groups))
    chosen = sample(membership, sides, most)
    if not len(chosen):
        return None
    streams = replace(trainer.streams, run_key=f"{trainer.streams.run_key} gradients")
    draw = _units(plan, trainer).draw(torch.from_numpy(chosen), streams.source("choice"))
    train, device = prepared.bundle.train, trainer.device
    sampled = Sampled(
        draw=draw, inputs=train.inputs[draw.records].to(device),
        targets=train.labels[draw.records].to(device),
        info={key: value[draw.members].to(device) for key, value in trainer.info.items()},
        facts=_facts(plan, draw, sides, membership),
        head=torch.from_numpy(sides.head[chosen]).to(device),
        tail=torch.from_numpy(sides.tail[chosen]).to(device),
        capture=Capture(
            trainer.engine, trainer.model, trainer.loss, trainer.groups, trainer.combine
        ),
        rule=trainer.rule, micro_batch=trainer.micro_batch,
        clipping=trainer.mechanism in CLIPPED, streams=streams, device=device,
    )  # fmt: skip
    return GradientRecorder(sampled, looks_at(plan.steps, settings.gradient_looks))


def write_gradients(folder: Path, gate: Gate, recorder: Recorder) -> None:
    """Write ``gradients.parquet`` whole, if ``recorder`` looked at units and ``gate`` lets it."""
    looked = recorder.gradients if isinstance(recorder, OracleRecorder) else None
    rows: Sequence[Any] = [] if looked is None else gate.rows(looked.rows)
    if not rows:
        return
    table = pd.DataFrame(list(rows))
    dtypes = dict(schema.GRADIENTS) | {
        name: "float32" for name in table if str(name).startswith("norm_")
    }
    dtypes |= {name: "string" for name in table if str(name).startswith(schema.SLICE_COLUMN)}
    table = table.astype(dtypes)
    write_whole(folder / schema.GRADIENTS_FILE, lambda p: table.to_parquet(p, index=False))


def _there(plan: Plan, trainer: Trainer) -> np.ndarray:
    """Return ``[units]`` bool: who is there to be trained on, and has a record."""
    there = (_units(plan, trainer).sizes() > 0).numpy()
    if trainer.present is None or trainer.combine is not None:
        return there
    return there & trainer.present.cpu().numpy()


def _units(plan: Plan, trainer: Trainer) -> RecordUnits | UserUnits:
    """Return what brings the records of a unit, as the sampler does."""
    bundle = plan.prepared.bundle
    if trainer.combine is None:
        return RecordUnits(len(bundle.train))
    known = getattr(trainer.sampler, "units", None)
    if isinstance(known, UserUnits):
        return known
    user = bundle.train.user if bundle.train.user is not None else np.zeros(0, dtype=np.int64)
    return UserUnits.of(torch.from_numpy(user), len(bundle.users), None, trainer.combine)


def _facts(plan: Plan, draw: Draw, sides: Sides, membership: np.ndarray) -> list[Row]:
    prepared, bundle = plan.prepared, plan.prepared.bundle
    members = draw.members.numpy()
    unit = prepared.cell.clip.unit
    names = np.array(bundle.users) if unit == "user" else bundle.train.example
    # Two strata: within each, every sampled unit stands for as many.
    everyone = membership[:, 0]
    rare = sides.tail[members]
    weight = {
        side: (sides.tail == side)[everyone].sum() / max(1, int((rare == side).sum()))
        for side in (False, True)
    }
    slices = replace(prepared.slices, membership=membership[members]).columns()
    return [
        {"unit": unit, "example": str(names[member]), "side": sides.word(member),
         "weight": float(weight[bool(rare[i])]), "release": "private",
         **{f"{schema.SLICE_COLUMN}{name}": values[i] for name, values in slices.items()}}
        for i, member in enumerate(members.tolist())
    ]  # fmt: skip
