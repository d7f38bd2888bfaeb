"""Decisions during training: who is asked, and what it costs."""

from __future__ import annotations

import math

import numpy as np

from dpsgd.accounting import Accountant, DpEvent, Relation
from dpsgd.accounting.calibration import TOLERANCE
from dpsgd.accounting.merging import composed
from dpsgd.accounting.sampled import full_batches
from dpsgd.clipping.rule import Unit
from dpsgd.data.bundle import Bundle, holdout_is_public
from dpsgd.errors import ConfigError
from dpsgd.experiment.settings import Cell
from dpsgd.training.decide import Validation
from dpsgd.training.looks import Looks


def looks_of(cell: Cell, bundle: Bundle, unit: Unit, steps: int) -> Looks | None:
    """Return how a cell looks at its validation split; None if it decides nothing.

    ``unit`` is what its sampler protects. Raises ConfigError for an empty split, for too few looks
    to decide anything, and for private records of which nobody knows whose they are.
    """
    decide = cell.decide
    if not isinstance(decide, Validation):
        return None
    split = bundle.validation
    if not len(split):
        raise ConfigError("decide", decide.name, "the validation split is empty")
    try:
        decide.check(steps)
    except ConfigError as error:
        raise error.under("decide") from None
    public = holdout_is_public(bundle)
    noised = cell.noised and not public
    owner = units = None
    if unit == "user" and split.user is not None:
        present, owner = np.unique(split.user, return_inverse=True)
        units = len(present)
    elif unit == "user" and noised:
        raise ConfigError(
            "decide", decide.name, "protects users, and whose the private validation records are "
            "is not known", "declare them public (data.holdout=public), or use decide=none",
        )  # fmt: skip
    release = "private" if not cell.private else "public" if public else "accounted"
    return Looks(
        decide, split, owner, unit, units or len(split), decide.noise if noised else 0.0, release
    )


def looks_after(decide: Validation, steps: int, after: int) -> tuple[int, ...]:
    """Return the steps of the looks of a run of ``steps`` steps that come after step ``after``."""
    return tuple(step for step in decide.looks(steps) if step > after)


def looks_event(looks: Looks | None, steps: int, after: int = 0) -> DpEvent | None:
    """Return the event of the looks after step ``after`` of a run of ``steps`` steps; None if they
    cost nothing.
    """
    if looks is None or not looks.noise_multiplier:
        return None
    count = len(looks_after(looks.decide, steps, after))
    return full_batches(looks.noise_multiplier, count) if count else None


def with_looks(event: DpEvent, looks: Looks | None, steps: int) -> DpEvent:
    """Return ``event``, that of ``steps`` training steps, composed with the looks planned for
    them: what the run costs, wherever it is stopped.
    """
    asked = looks_event(looks, steps)
    return event if asked is None else composed([event, asked])


def check_affordable(
    looks: Looks | None, steps: int, accountant: Accountant, relation: Relation, epsilon: float,
    delta: float,
) -> None:  # fmt: skip
    """Raise ConfigError if the looks alone spend ``epsilon``: no noise of the steps helps then."""
    event = looks_event(looks, steps)
    if looks is None or event is None or math.isinf(epsilon):
        return
    spent = accountant.epsilon(event, relation, delta)
    if spent >= epsilon * (1 - TOLERANCE):
        raise ConfigError(
            "decide.noise", looks.decide.noise, f"{len(looks.decide.looks(steps))} looks alone "
            f"cost ε = {spent:.3g} of {epsilon:g}; look less often (decide.every) or noise them "
            "more",
        )  # fmt: skip


def protected_besides(looks: Looks | None) -> int:
    """Return how many units a run protects that are not among those it trains on."""
    if looks is None or not looks.noise_multiplier or looks.unit == "user":
        return 0
    return looks.units
