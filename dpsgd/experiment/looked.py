"""What a run leaves of its looks at the validation split, and of how they ended it."""

from __future__ import annotations

import math
from typing import Any

from analysis import schema
from dpsgd.training.looks import SENSITIVITY, Ending, Looks

EARLY = "early stopping"
"""What ``stopped_by`` says of a run that its looks ended; see ``Plan.stopped_by`` for others."""

_HALF_WIDTH = 1.959963984540054
"""Of a 95 % interval, in standard deviations of a normal distribution."""


def look_rows(looks: Looks | None, ending: Ending | None, steps: int) -> list[dict[str, Any]]:
    """Return rows of ``schema.EVALUATION``: the score of each look that was taken.

    ``lo`` and ``hi`` are the 95 % interval of its noise; raw looks have none.
    """
    if looks is None or ending is None:
        return []
    std = looks.noise_multiplier * SENSITIVITY / looks.units
    half = _HALF_WIDTH * std if std else math.nan
    return [
        {
            "step": step, "split": looks.split.name, "slice_kind": schema.GROUP_ALL,
            "slice": schema.GROUP_ALL, "metric": schema.LOOK, "value": score, "n": looks.units,
            "lo": score - half, "hi": score + half, "release": looks.release,
        }
        for step, score in zip(looks.decide.looks(steps), ending.scores, strict=False)
    ]  # fmt: skip


def ended(ending: Ending | None) -> dict[str, Any]:
    """Return what ``cell.json`` says of how decisions ended a run; nothing without decisions."""
    if ending is None:
        return {}
    how = {"stopped_by": EARLY} if ending.early else {}
    return {
        **how, "steps_taken": ending.taken, "step_released": ending.released,
        "looks_taken": len(ending.scores),
    }  # fmt: skip
