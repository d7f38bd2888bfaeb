"""The entries of a ledger: one for each mechanism, with the event that it is to an accountant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from dpsgd.accounting import DpEvent
from dpsgd.accounting.merging import noise_of
from dpsgd.accounting.stored import event_to_json
from dpsgd.clipping.rule import ClipRule, ReleasePurpose, State
from dpsgd.errors import PrivacyError
from dpsgd.sampling.sampler import Sampler
from dpsgd.sampling.schemes import steps_to_charge

PURPOSES: tuple[str, ...] = get_args(ReleasePurpose)

ENVELOPE = "Σ_g (w_g·n_g/scale_g)² + Σ_k (query_k/query_scale_k)² ≤ 1"
"""What a rule declares of every unit; the shares of the entries divide the 1."""

_OF_STEP: Mapping[str, str] = {
    "gradient": "Σ_g (w_g·n_g/scale_g)² ≤ share",
    "clip query": "Σ_k (query_k/query_scale_k)² ≤ share",
    "slice telemetry": "Σ_j (count_j/count_scale_j)² ≤ share",
}


@dataclass(frozen=True)
class Scope:
    """What the entries of one draw have in common.

    ``draw_id`` is ``first-last`` for training steps, and any other text for another draw. Entries
    of one stream and draw are one joint release. ``sampling_probability`` is None where units have
    none, as in fixed batches.
    """

    unit: str
    relation: str
    sampling_probability: float | None
    steps: int
    draw_id: str
    stream_id: str


def step_entries(
    rule: ClipRule, state: State, sampler: Sampler, noise_multiplier: float, steps: int,
    stream_id: str, relation: str, *, first: int = 1,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the entries of training steps ``first`` to ``steps``: what the rule releases, each
    with its share.

    The joint release of a step has ``noise_multiplier`` σ; a release of share s has σ/√s alone, and
    they merge to σ again. Raises PrivacyError unless the shares add up to 1.
    """
    shares = {purpose: share for purpose, share in rule.shares(state).items() if share > 0}
    if not math.isclose(math.fsum(shares.values()), 1.0, rel_tol=1e-9):
        raise PrivacyError(f"clip={rule.name}: its shares of the envelope are {shares}, not 1")
    scope = Scope(
        sampler.unit, relation, sampler.sampling_probability, steps - first + 1,
        f"{first}-{steps}", stream_id,
    )  # fmt: skip
    whole, charged = len(shares) == 1, steps_to_charge(sampler.facts, first, steps)
    return [
        entry(
            purpose, sampler.event(noise_multiplier / math.sqrt(share), charged), share,
            ENVELOPE if whole else _OF_STEP.get(purpose, "of its columns: ≤ share"), scope,
        )
        for purpose, share in shares.items()
    ]  # fmt: skip


def entry(
    purpose: str, event: DpEvent, share: float, sensitivity: str, scope: Scope
) -> dict[str, Any]:
    """Return one entry: ``event`` is that of this mechanism alone, over all its steps.

    Raises PrivacyError for a purpose that is not in the closed list.
    """
    if purpose not in PURPOSES:
        raise PrivacyError(f"{purpose!r} is no purpose of a ledger: {', '.join(PURPOSES)}")
    return {
        "purpose": purpose,
        "noise_multiplier": noise_of(event),
        "share": share,
        "sampling_probability": scope.sampling_probability,
        "steps": scope.steps,
        "draw_id": scope.draw_id,
        "stream_id": scope.stream_id,
        "unit": scope.unit,
        "relation": scope.relation,
        "sensitivity": sensitivity,
        "event": event_to_json(event),
    }


def by_draw(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return the entries of each (stream, draw), in the order in which they were written."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in entries:
        found.setdefault((str(one["stream_id"]), str(one["draw_id"])), []).append(one)
    return found


def training_steps(draw_id: str) -> range | None:
    """Return the steps of a training draw ``first-last``; None for another draw."""
    first, dash, last = draw_id.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return None
    return range(int(first), int(last) + 1)
