"""What a ledger says of decisions during training: an entry, lines of the page, what is raw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd.experiment.decisions import looks_after, looks_event
from dpsgd.experiment.ledger.entries import Scope, entry
from dpsgd.training.looks import SENSITIVITY, Looks

DRAW = "looks"
"""The draw id of the looks: everyone in the validation split, each time."""

COMPOSITION = (
    "They compose one after another with the training steps, as if everybody were in both splits"
)

_BOUND = f"|a_u − ½| ≤ {SENSITIVITY:g} for a unit's answer a_u in [0, 1], under add-or-remove-one"

_WORDS: Mapping[str, str] = {
    "early stopping": "whether training ends early",
    "selection": "which parameters are released",
    "validation": "whether training ends early, and which parameters are released",
}


def looks_entries(
    looks: Looks | None, steps: int, stream_id: str, relation: str, *, after: int = 0
) -> list[dict[str, Any]]:
    """Return the ledger's entry of the looks after step ``after``, if they are inside ε."""
    event = looks_event(looks, steps, after)
    if looks is None or event is None:
        return []
    count = len(looks_after(looks.decide, steps, after))
    scope = Scope(looks.unit, relation, 1.0, count, DRAW, stream_id)
    return [entry(looks.decide.purpose, event, 1.0, _BOUND, scope)]


def decisions_block(looks: Looks | None, steps: int) -> dict[str, Any]:
    """Return what the ledger says of decisions during training; nothing if there are none."""
    if looks is None:
        return {}
    return {
        "decisions": {
            "purpose": looks.decide.purpose,
            "decide": _WORDS[looks.decide.purpose],
            "release": looks.release,
            "steps": list(looks.decide.looks(steps)),
            "unit": looks.unit,
            "units": looks.units,
            "noise_multiplier": looks.noise_multiplier or None,
            "users_known": looks.owner is not None,
        }
    }


def decisions_not_covered(looks: Looks | None) -> list[str]:
    """Return what of the looks is outside ε, as a line of its own."""
    if looks is None or looks.noise_multiplier:
        return []
    how = "declared public" if looks.release == "public" else "raw"
    return [f"decisions during training ({looks.decide.purpose}): read from validation data, {how}"]


def decision_lines(decisions: Mapping[str, Any]) -> list[str]:
    """Return the lines of a ledger's page about its decisions."""
    steps, unit, units = decisions["steps"], decisions["unit"], decisions["units"]
    lines = [
        f"{len(steps)} looks at the validation split decide {decisions['decide']} "
        f"({decisions['purpose']}). They are planned before training, after steps "
        f"{', '.join(map(str, steps))}; one that is not taken is paid for all the same.",
        f"n = {units} {unit}s in the validation split, declared public.",
    ]
    sigma = decisions["noise_multiplier"]
    if sigma is None:
        told = {
            "public": "Read from validation data, declared public: no ε is spent on looking.",
            "private": "Read raw from validation data, in a run that is not private.",
        }[decisions["release"]]
        return [*lines, told]
    return [
        *lines,
        f"Each look is one Gaussian release of everybody's answers: noise multiplier {sigma:g}, "
        f"which is {sigma * SENSITIVITY / units:.2g} on the accuracy (standard deviation). "
        f"{COMPOSITION}.",
    ]


def neighbours_besides(looks: Looks | None) -> str:
    """Return what neighbours are where validation records are protected too, as a sentence."""
    if looks is None or not looks.noise_multiplier:
        return ""
    if looks.unit == "user":
        return ". A user's validation records are the user's data too, and protected with them"
    return ". The one record may as well be of the validation split: both are protected"
