"""What telemetry needs before training: the rule with its columns beside it, and the recorder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule
from dpsgd.data.bundle import Bundle, holdout_is_public
from dpsgd.errors import ConfigError
from dpsgd.experiment.settings import Cell
from dpsgd.slices import SliceTable
from dpsgd.slices.units import by_user
from dpsgd.slices.user_size import UserSize
from dpsgd.telemetry.accounted import Accounted
from dpsgd.telemetry.counts import PURPOSE
from dpsgd.telemetry.probe import Probe


def released_rule(
    cell: Cell, bundle: Bundle, groups: Groups
) -> tuple[ClipRule, dict[str, Tensor]]:  # fmt: skip
    """Return what a step releases by, the rule alone or with slice counts beside it, and what it
    may know of each unit for that: memberships ``[n_units, slices]``.

    Raises ConfigError for slices whose counts the noise would not cover.
    """
    telemetry = cell.telemetry
    if isinstance(telemetry, Probe):
        _check_probe(cell, bundle)
    if not isinstance(telemetry, Accounted):
        return cell.clip, {}
    table = counted_slices(cell, bundle)
    try:
        rule = telemetry.joint(cell.clip, len(table.keys), len(groups), _most(cell, table))
    except ConfigError as error:
        raise error.under("telemetry") from None
    return rule, {PURPOSE: torch.from_numpy(of_units(cell, bundle, table.membership))}


def counted_slices(cell: Cell, bundle: Bundle) -> SliceTable:
    """Return the slices of the training records that ``telemetry=accounted`` counts.

    Raises ConfigError for a key that ``slices.kinds`` has not, and for slices of records that are
    made from other records.
    """
    kinds = cell.slices.kinds
    keys = list(kinds) if cell.telemetry.kinds is None else list(cell.telemetry.kinds)
    for key in keys:
        if key not in kinds:
            known = ", ".join(kinds) or "none"
            raise ConfigError(
                "telemetry.kinds", key, f"no such key of slices.kinds; there are {known}"
            )
        from_train = getattr(kinds[key], "from_train", False)
        if from_train and not (isinstance(kinds[key], UserSize) and cell.clip.unit == "user"):
            raise ConfigError(
                "telemetry.kinds", key,
                "these slices are made from training records, so that one unit decides where "
                "others are counted, and no noise covers that",
                "count the other kinds: telemetry.kinds=["
                + ", ".join(k for k in keys if not getattr(kinds[k], "from_train", False))
                + "]; user_size may be counted with clip.unit=user",
            )  # fmt: skip
    chosen = replace(cell.slices, kinds={key: kinds[key] for key in keys})
    return chosen.table(bundle.train, bundle)


def of_units(cell: Cell, bundle: Bundle, membership: np.ndarray) -> np.ndarray:
    """Return memberships ``[n_units, slices]`` from those of the training records."""
    if cell.clip.unit == "user" and bundle.train.user is not None:
        return by_user(membership, bundle.train.user, len(bundle.users))
    return membership


def _check_probe(cell: Cell, bundle: Bundle) -> None:
    """Raise ConfigError unless the validation records may stand in for the training records."""
    reason = (
        "units are users, and validation records are no users"
        if cell.clip.unit == "user"
        else ""
        if holdout_is_public(bundle)
        else "the validation records are not declared public (data.holdout=public), or are known "
        "to be about users, who may own training records too"
    )
    if reason or not len(bundle.validation):
        raise ConfigError(
            "telemetry", cell.telemetry.name,
            f"measures validation records, and cannot here: {reason or 'there are none'}",
            "use telemetry=accounted, which is inside ε",
        )  # fmt: skip


def _most(cell: Cell, table: SliceTable) -> int:
    """Return in how many counted slices one unit is at most, by what is declared."""
    besides = len(table.keys) - 1
    declared = cell.telemetry.most_memberships
    if declared is None and cell.clip.unit == "record":
        declared = cell.slices.most_memberships
    return 1 + (besides if declared is None else min(declared, besides))
