"""What is decided before any accountant is asked: data, model, δ, steps and the run's key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

import numpy as np
import torch
from platformdirs import user_cache_path
from torch import Tensor, nn

from dpsgd.accounting import (
    DpEvent,
    check_delta,
    default_delta,
)
from dpsgd.clipping.checks import check_rule
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule
from dpsgd.data.bundle import Bundle, fingerprint_of
from dpsgd.engine import clip_groups
from dpsgd.engine.checks import check_engine, check_rows_apart
from dpsgd.engine.gradients import Loss
from dpsgd.engine.memory import MEASURED, rows_at_once
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.decisions import looks_of, protected_besides, with_looks
from dpsgd.experiment.identity import run_key
from dpsgd.experiment.releasing import check_release_data
from dpsgd.experiment.settings import Cell, baseline
from dpsgd.experiment.watching import released_rule
from dpsgd.models.shape import DataShape
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Owners, Sampler
from dpsgd.slices import SliceTable
from dpsgd.slices.units import by_user
from dpsgd.training.looks import Looks
from dpsgd.training.loss import cross_entropy

COMMON_NOISE = "common noise"
"""Stands in for the run key in the streams of runs that shall share them."""

MOST_PROBED = 128
"""The larger of the two synthetic batches that a model must pass has at most so many rows."""


@dataclass(frozen=True)
class Prepared:
    """A cell with its data and model, checked as far as possible without an accountant.

    ``micro_batch`` is how many rows the engine holds at once; None: all of a draw. ``rule`` is
    what a step releases by: the cell's rule, or that with telemetry's columns beside it. ``looks``
    are those at the validation split, None without decisions.
    """

    cell: Cell
    bundle: Bundle
    slices: SliceTable
    run_key: str
    baseline_key: str
    sampler: Sampler
    steps: int
    delta: float
    delta_why: str
    shape: DataShape
    model: nn.Module
    loss: Loss
    groups: Groups
    micro_batch: int | None
    rule: ClipRule
    info: dict[str, Tensor]
    streams: Streams
    looks: Looks | None

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return what ``steps`` steps cost, with all looks that are planned for so many."""
        return with_looks(self.sampler.event(noise_multiplier, steps), self.looks, steps)


def prepare(cell: Cell) -> Prepared:
    """Load the data, build the model and check both. Raises ConfigError or PrivacyError."""
    settings = cell.settings
    bundle = loaded(cell)
    check_release_data(cell, bundle)
    sampler = _sampler(cell, bundle)
    n_units = sampler.n_units
    steps = settings.steps or sampler.steps(settings.epochs)
    delta = settings.delta or default_delta(n_units)
    looks = looks_of(cell, bundle, sampler.unit, steps)
    check_delta(delta, n_units + protected_besides(looks))
    why = "configured" if settings.delta else "n_units^-1.1, rounded down to one digit"
    key = run_key(cell, bundle.fingerprint)
    loss: Loss = getattr(cell.model, "loss", cross_entropy)
    shape = DataShape(
        tuple(bundle.train.inputs.shape[1:]), len(bundle.classes), bundle.vocabulary, bundle.task
    )
    model, groups, micro_batch = _model(cell, shape, loss, sampler.largest_draw)
    slices = _slices(cell, bundle)
    rule, asked = released_rule(cell, bundle, groups)
    return Prepared(
        cell, bundle, slices, key, run_key(baseline(cell), bundle.fingerprint),
        sampler, steps, delta, why,
        shape, model, loss, groups, micro_batch, rule, _info(cell, bundle) | asked,
        _streams(cell, key), looks,
    )  # fmt: skip


def _streams(cell: Cell, key: str) -> Streams:
    if cell.settings.release:  # its key comes from the run's folder, or makes one there
        return Streams.keyless(key)
    return Streams.from_seed(cell.settings.seed, COMMON_NOISE if cell.debug.common_noise else key)


def loaded(cell: Cell) -> Bundle:
    """Load the data of a cell and give them their owners and fingerprint. Raises ConfigError."""
    try:
        bundle = cell.data.load(user_cache_path("dpsgd"))
    except ConfigError as error:
        raise error if error.key.startswith("data") else error.under("data") from None
    try:
        bundle = cell.users.assign(bundle, cell.data.seed)
    except ConfigError as error:
        raise error.under("users") from None
    # Whatever a source says of itself: other data under the same key would share their noise.
    facts = [fingerprint_of([bundle.train, bundle.validation, bundle.test]), bundle.users,
             bundle.classes, bundle.vocabulary, bundle.task, bundle.keep]  # fmt: skip
    return replace(bundle, fingerprint=hashlib.sha256(json.dumps(facts).encode()).hexdigest())


def _sampler(cell: Cell, bundle: Bundle) -> Sampler:
    batch, user = cell.settings.batch, bundle.train.user
    owners = None if user is None else Owners(torch.from_numpy(user), len(bundle.users))
    try:
        if cell.clip.unit == "record":
            return cell.sampling.records(len(bundle.train), batch, owners)
        if owners is None:
            raise ConfigError(
                "clip.unit", "user",
                f"data={bundle.name} knows of no users; name their column (data.user=...), or "
                "partition the records: users=dirichlet",
            )  # fmt: skip
        return cell.sampling.users(owners.user, owners.count, batch)
    except ConfigError as error:
        outer = error.key in ("batch", "clip.unit")
        raise error if outer else error.under("sampling") from None


def _slices(cell: Cell, bundle: Bundle) -> SliceTable:
    try:
        for split in (bundle.validation, bundle.test):
            cell.slices.table(split, bundle)
        return cell.slices.table(bundle.train, bundle)
    except ConfigError as error:
        raise error if error.key.startswith("slices") else error.under("slices") from None


def _info(cell: Cell, bundle: Bundle) -> dict[str, Tensor]:
    """Return what the rule may know of each unit: one group of a declared partition."""
    key = cell.clip.partition
    if key is None:
        return {}
    names, member = cell.slices.part(key, bundle.train, bundle)
    if cell.clip.unit == "user":
        everyone = np.ones((len(member), 1), dtype=bool)
        user = bundle.train.user if bundle.train.user is not None else np.zeros(0, dtype=int)
        member = by_user(np.column_stack([everyone, member]), user, len(bundle.users))[:, 1:]
        member[~member.any(axis=1), 0] = True  # a user without records weighs nothing anyway
        several = np.flatnonzero(member.sum(axis=1) > 1)
        if len(several):
            raise ConfigError(
                f"clip={cell.clip.name}", f"user {bundle.users[several[0]]}",
                f"has records in several slices of {key!r} ({', '.join(names[:3])} ...), and this "
                "rule needs one group a unit",
            )  # fmt: skip
    return {key: torch.from_numpy(member)}


def _model(
    cell: Cell, shape: DataShape, loss: Loss, largest: float
) -> tuple[nn.Module, Groups, int | None]:
    # Cells of one seed share their starting point, whatever their rule: it is public, and pairs
    # them. The run key is left out of this stream on purpose.
    init = Streams.from_seed(cell.settings.seed, "initial weights")
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(init.generator("init").get_state())
        try:
            model = cell.model.build(shape)
        except ConfigError as error:
            raise error.under("model") from None
    try:
        groups = clip_groups(model, cell.clip.granularity)
        for rows in (4, max(4, min(MOST_PROBED, round(cell.settings.batch)))):
            inputs, targets = probe(shape, rows, init.generator("probe", rows))
            check_rows_apart(model, loss, inputs, targets)
            check_engine(cell.engine, model, loss, inputs, targets, groups)
        inputs, targets = probe(shape, MEASURED, init.generator("probe", MEASURED))
        micro_batch = rows_at_once(cell.engine, model, loss, inputs, targets, groups, largest)
        check_rule(cell.clip, groups, cell.settings.batch)
    except ConfigError as error:
        outer = error.key == "clip" or error.key.startswith(("model", "engine."))
        raise error if outer else error.under("clip") from None
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, PrivacyError):
            raise
        raise ConfigError(
            "model", cell.model.name,
            f"fails on synthetic rows of shape {shape.inputs}: {type(error).__name__}: {error}",
        ) from error  # fmt: skip
    return model.to(cell.settings.device), groups, micro_batch


def probe(shape: DataShape, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return synthetic inputs and targets of ``rows`` rows: never the data."""
    size = (rows, *shape.inputs)
    inputs = (
        torch.randint(shape.vocabulary, size, generator=generator)
        if shape.vocabulary
        else torch.rand(size, generator=generator)
    )
    target_size = size if shape.task == "tokens" else (rows,)
    return inputs, torch.randint(shape.classes, target_size, generator=generator)
