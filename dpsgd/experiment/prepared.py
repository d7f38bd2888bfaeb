"""What is decided before any accountant is asked: data, model, δ, steps and the run's key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from platformdirs import user_cache_path
from torch import Tensor, nn

from dpsgd.accounting import DpEvent
from dpsgd.clipping.checks import check_rule
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule
from dpsgd.data.bundle import Bundle, with_fingerprint
from dpsgd.engine.gradients import Loss
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.canaries import check_canaries, info_with_canaries
from dpsgd.experiment.checked_model import CheckedModel, checked_model
from dpsgd.experiment.coins import Coins, coins_of, plant, seen, uncounted
from dpsgd.experiment.decisions import with_looks
from dpsgd.experiment.identity import run_key
from dpsgd.experiment.releasing import check_release_data
from dpsgd.experiment.schedule import scheduled
from dpsgd.experiment.settings import Cell, baseline
from dpsgd.experiment.watching import released_rule
from dpsgd.models.shape import DataShape
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Sampler
from dpsgd.slices import SliceTable
from dpsgd.slices.units import by_user
from dpsgd.training.looks import Looks
from dpsgd.training.loss import cross_entropy

COMMON_NOISE = "common noise"
"""Stands in for the run key in the streams of runs that shall share them."""

ModelOf = Callable[[Cell, DataShape, Loss, float], CheckedModel]


@dataclass(frozen=True)
class Prepared:
    """A cell with its data and model, checked as far as possible without an accountant.

    ``micro_batch`` is how many rows the engine holds at once; None: all of a draw. ``rule`` is
    what a step releases by: the cell's rule, or that with telemetry's columns beside it. ``looks``
    are those at the validation split, None without decisions; ``coins`` those of audited records.
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
    coins: Coins | None

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return what ``steps`` steps cost, with all looks that are planned for so many."""
        return with_looks(self.sampler.event(noise_multiplier, steps), self.looks, steps)


def prepare(
    cell: Cell, bundle: Bundle | None = None, model_of: ModelOf = checked_model
) -> Prepared:
    """Load the data, build the model and check both. Raises ConfigError or PrivacyError.

    Whoever looks at many cells, and trains none, may give the ``bundle`` that :func:`loaded` would
    return, and a ``model_of`` that answers as :func:`checked_model` does.
    """
    whole = loaded(cell) if bundle is None else bundle
    check_release_data(cell, whole)
    planted = plant(cell, whole)
    bundle = whole if planted is None else planted.bundle
    schedule = scheduled(cell, bundle)
    sampler = schedule.sampler
    key = run_key(cell, bundle.fingerprint)
    loss: Loss = getattr(cell.model, "loss", cross_entropy)
    shape = DataShape(
        tuple(bundle.train.inputs.shape[1:]), len(bundle.classes), bundle.vocabulary, bundle.task
    )
    checked = model_of(cell, shape, loss, sampler.largest_draw)
    groups = checked.groups
    _check_rule(cell, groups)
    check_canaries(cell, checked.model)
    slices = _slices(cell, whole)
    rule, asked = released_rule(cell, whole, groups)
    asked = uncounted(asked, planted, records=sampler.unit == "record")
    streams = _streams(cell, key)
    return Prepared(
        cell, bundle, seen(slices, planted), key, run_key(baseline(cell), bundle.fingerprint),
        sampler, schedule.steps, schedule.delta, schedule.delta_why,
        shape, checked.model, loss, groups, checked.micro_batch, rule,
        info_with_canaries(cell, _info(cell, bundle) | asked),
        streams, schedule.looks, coins_of(cell, planted, slices, streams),
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
    return with_fingerprint(bundle)


def _check_rule(cell: Cell, groups: Groups) -> None:
    try:
        check_rule(cell.clip, groups, cell.settings.batch)
    except ConfigError as error:
        raise error if error.key == "clip" else error.under("clip") from None
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, PrivacyError):
            raise
        raise ConfigError(
            "clip", cell.clip.name, f"fails on synthetic norms: {type(error).__name__}: {error}"
        ) from error


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
