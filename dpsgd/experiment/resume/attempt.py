"""Where an attempt at a run begins, by which streams it draws, and what the ledger says of it."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.accounting import check_certified, format_epsilon
from dpsgd.errors import PrivacyError
from dpsgd.experiment.ledger.composed import composed_event
from dpsgd.experiment.ledger.content import training_entries
from dpsgd.experiment.ledger.environment import beginning, code_state, repeats_bits
from dpsgd.experiment.ledger.repeats import (
    Repeat,
    differs,
    entries_again,
    environment_of,
    epoch_of,
    repeats_of,
    with_repeats,
)
from dpsgd.experiment.plan import Plan, epsilons_of

Content = Mapping[str, Any]
SIGMA_APART = 1e-2
"""How far, relatively, the σ that another environment solved may be from the one solved here."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run. ``plan`` has the ε of all attempts together, and the first streams;
    ``content`` is the checkpoint to go on from (None: from the first step), and ``here`` the
    environment, with the weights that training begins with.
    """

    plan: Plan
    repeats: tuple[Repeat, ...]
    content: Content | None
    stored: Mapping[str, Any]
    here: Mapping[str, Any]

    @property
    def begun(self) -> int:
        """The step after which this attempt begins."""
        return 0 if self.content is None else int(self.content["step"])

    @property
    def training(self) -> Plan:
        """The plan with the streams that this attempt draws by."""
        prepared = self.plan.prepared
        streams = epoch_of(prepared.streams, self.repeats)
        return replace(self.plan, prepared=replace(prepared, streams=streams))

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint of this attempt says of itself."""
        return _identity(self.plan, self.training.prepared.streams.stream_id, self.here)

    def ledger(self, planned: dict[str, Any]) -> dict[str, Any]:
        """Return the whole ledger; ``planned`` is that of ``plan``."""
        return with_repeats(planned, self.stored, self.plan, self.repeats)


def attempt_of(
    plan: Plan, stored: Any, checkpoints: Iterable[Content], folder: Path, cache: Path
) -> Attempt:
    """Return how to go on after the attempt that left the ledger ``stored`` (None: there was none)
    and ``checkpoints``, the newest first.

    In the same environment, on a CPU, the keyed streams repeat every step bit by bit, so that
    nothing new is released, whichever checkpoint it goes on from. Elsewhere, and where the
    beginning of such a repeat is lost, the steps to come are another release: they are drawn by a
    new epoch of the key and charged again (``resume=charge``), or refused.

    Raises PrivacyError for a refusal, for a ledger that cannot be of this run, and for one that is
    torn, or gone where there are checkpoints.
    """
    settings = plan.prepared.cell.settings
    here, kept = beginning(settings.device, plan.prepared.model), list(checkpoints)
    if not isinstance(stored, Mapping):
        _check_new(plan, kept, folder)
        return Attempt(plan, (), None, {}, here)
    there = environment_of(stored)
    if not plan.prepared.cell.private:  # it has no ε to keep: elsewhere it starts again
        fitting = _made_by(kept, plan, plan.prepared.streams.stream_id, here)
        return Attempt(plan, (), next(fitting, None), {}, here)
    repeats = repeats_of(stored)
    if repeats or here != there:
        plan = _as_before(plan, stored, folder)
    if here == there and repeats_bits(settings.device):
        known = Attempt(_charged(plan, repeats, cache), repeats, None, stored, here)
        for content in _goes_on(kept, known, here):
            return replace(known, content=content)
        if not repeats or repeats[-1].after == 0:
            return known
    origins = [plan.prepared.streams.stream_id, *(one.stream_id for one in repeats)]
    environments = [stored.get("environment"), *(one.environment for one in repeats)]
    newest = [
        content
        for stream, where in zip(origins, environments, strict=True)
        for content in _made_by(kept, plan, stream, where)
    ]
    content = max(newest, key=lambda one: int(one["step"]), default=None)
    moved = _moved(plan, repeats, content, here)
    plan = _charged(plan, moved, cache)
    if settings.resume != "charge":
        raise PrivacyError(_refusal(plan, moved[-1], stored, differs(there or {}, here), folder))
    return Attempt(plan, moved, content, stored, here)


def _check_new(plan: Plan, kept: list[Content], folder: Path) -> None:
    """Raise PrivacyError if a run without a ledger was begun all the same: where that was, and by
    which streams, is not known.
    """
    torn = (folder / schema.LEDGER_FILE).exists()
    if plan.prepared.cell.private and (torn or kept):
        raise PrivacyError(
            f"{folder} holds an attempt whose {schema.LEDGER_FILE} is {'torn' if torn else 'gone'}:"
            " in which environment it began is not known, and the same noise could cover other "
            "sums. Move that folder away if nothing from it was released, or use another seed"
        )


def _goes_on(kept: list[Content], known: Attempt, here: Mapping[str, Any]) -> Iterable[Content]:
    """Yield checkpoints from which the streams of the latest attempt repeat what it did."""
    streams = epoch_of(known.plan.prepared.streams, known.repeats)
    yield from _made_by(kept, known.plan, streams.stream_id, here)
    for last in known.repeats[-1:]:
        before = [known.stored["environment"], *(r.environment for r in known.repeats)][-2]
        for content in _made_by(kept, known.plan, last.origin, before):
            if content["step"] == last.after:
                yield content


def _made_by(kept: Iterable[Content], plan: Plan, stream: str | None, where: Any) -> Any:
    identity = None if stream is None else _identity(plan, stream, where)
    return (content for content in kept if content.get("identity") == identity)


def _identity(plan: Plan, stream: str, where: Mapping[str, Any]) -> dict[str, Any]:
    entries = json.dumps(training_entries(plan), sort_keys=True)
    return {
        "run_key": plan.prepared.run_key, "stream_id": stream, "environment": dict(where),
        "micro_batch": plan.prepared.micro_batch, "noise_multiplier": plan.noise_multiplier,
        "steps": plan.steps, "entries": hashlib.sha256(entries.encode()).hexdigest(),
    }  # fmt: skip


def _moved(
    plan: Plan, repeats: tuple[Repeat, ...], content: Content | None, here: Mapping[str, Any]
) -> tuple[Repeat, ...]:
    """Return ``repeats`` with one more, which begins at ``content``."""
    epoch, nonce = len(repeats) + 1, secrets.token_hex(8)
    streams = replace(plan.prepared.streams, epoch=epoch, nonce=nonce)
    after = 0 if content is None else int(content["step"])
    origin = None if content is None else str(content["identity"]["stream_id"])
    moved = Repeat(epoch, nonce, streams.stream_id, after, origin, dict(here), code_state())
    return (*repeats, moved)


def _as_before(plan: Plan, stored: Mapping[str, Any], folder: Path) -> Plan:
    """Return ``plan`` with the σ that was solved where the run began: it may differ here in its
    last digits, and what was released had that one.
    """
    sigma, steps = stored.get("noise_multiplier"), stored.get("steps")
    alike = isinstance(sigma, float) and math.isclose(
        sigma, plan.noise_multiplier, rel_tol=SIGMA_APART
    )
    if not alike or steps != plan.steps:
        raise PrivacyError(
            f"{folder} holds an attempt with σ = {sigma} for {steps} steps, and here it would be "
            f"σ = {plan.noise_multiplier} for {plan.steps}: another release. Move that folder away "
            "if nothing from it was released, or use another seed"
        )
    return replace(plan, noise_multiplier=sigma)


def _charged(plan: Plan, repeats: tuple[Repeat, ...], cache: Path) -> Plan:
    """Return ``plan`` with the ε of its steps and of those of ``repeats``, all together."""
    if not repeats:
        return plan
    entries = [*training_entries(plan), *entries_again(plan, repeats)]
    event = composed_event({"private": True, "entries": entries})
    epsilons = epsilons_of(plan.prepared, event, cache)
    name = plan.prepared.cell.accountant.name
    epsilon = float(epsilons[name])
    check_certified(name, epsilon, epsilons.get("pld"))
    return replace(plan, epsilon=epsilon, epsilons=epsilons)


def _refusal(plan: Plan, repeat: Repeat, stored: Mapping[str, Any], what: str, folder: Path) -> str:
    settings = plan.prepared.cell.settings
    target = settings.epsilon
    budget = "" if target is None else f" (epsilon={target:g})"
    why = (
        f"holds an attempt from another environment ({what}), whose steps would not be repeated "
        "bit by bit"
        if what
        else f"holds an attempt of another process on device={settings.device}, which repeats no "
        "step bit by bit"
        if not repeats_bits(settings.device)
        else "lacks the checkpoint from which its latest attempt began"
    )
    return (
        f"{folder} {why}. Going on after step {repeat.after}, steps {repeat.after + 1} to "
        f"{plan.steps} would be drawn and charged again: ε = {format_epsilon(plan.epsilon)} in "
        f"place of {format_epsilon(float(stored['epsilon']))}{budget}. Run it where it began; or "
        "say resume=charge to spend that; or move that folder away if nothing from it was "
        "released, or use another seed"
    )
