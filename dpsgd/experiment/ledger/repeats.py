"""Steps that were drawn again in another environment: streams and entries of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpsgd.experiment.ledger.decisions import looks_entries
from dpsgd.experiment.ledger.entries import step_entries
from dpsgd.experiment.plan import Plan
from dpsgd.randomness import Streams

CHARGED_AGAIN = "charged_again"
"""The key of a ledger that lists them; a run that was never moved has none."""

WHY = (
    "Another environment does not repeat steps bit by bit. The same noise on a sum that differs in "
    "its last digits would show them, so that these were drawn again, by streams of their own, and "
    "are charged again; whatever the attempt before released of them stays charged too"
)


@dataclass(frozen=True)
class Repeat:
    """Training that went on in another environment, with a new epoch of the key.

    It began after step ``after``, from the checkpoint that the attempt of ``origin``, a stream id,
    had left there (None: from the first step). ``environment`` and ``code`` are its own, and so is
    ``nonce``: another copy of the folder goes on by other streams.
    """

    epoch: int
    nonce: str
    stream_id: str
    after: int
    origin: str | None
    environment: Mapping[str, Any]
    code: Mapping[str, Any]

    def streams(self, streams: Streams) -> Streams:
        """Return those of ``streams``, the run's, that this repeat draws by."""
        return replace(streams, epoch=self.epoch, nonce=self.nonce)


def repeats_of(ledger: Mapping[str, Any]) -> tuple[Repeat, ...]:
    """Return the repeats that a ledger lists, in their order.

    Raises KeyError and TypeError for a list that this program did not write.
    """
    return tuple(Repeat(**one) for one in ledger.get(CHARGED_AGAIN, ()))


def epoch_of(streams: Streams, repeats: Sequence[Repeat]) -> Streams:
    """Return the streams that the last of ``repeats`` draws by, without one the first ones."""
    return repeats[-1].streams(streams) if repeats else first_streams(streams)


def first_streams(streams: Streams) -> Streams:
    """Return the streams that a run began with."""
    return replace(streams, epoch=0, nonce="")


def entries_again(plan: Plan, repeats: Sequence[Repeat]) -> list[dict[str, Any]]:
    """Return the entries of all ``repeats``: of each every step, and every look, that came after
    its beginning, whether or not it was taken.
    """
    prepared, relation = plan.prepared, plan.prepared.cell.settings.relation
    state = prepared.rule.bind(
        prepared.groups, plan.noise_multiplier, prepared.sampler.expected_units
    )
    found: list[dict[str, Any]] = []
    for one in repeats:
        if one.after < plan.steps:
            found += step_entries(
                prepared.rule, state, prepared.sampler, plan.noise_multiplier, plan.steps,
                one.stream_id, relation, first=one.after + 1,
            )  # fmt: skip
        found += looks_entries(prepared.looks, plan.steps, one.stream_id, relation, after=one.after)
    return found


def with_repeats(
    ledger: dict[str, Any], stored: Mapping[str, Any], plan: Plan, repeats: Sequence[Repeat]
) -> dict[str, Any]:
    """Return ``ledger``, that of the plan without its repeats, with them; ``stored`` is that of the
    attempt before, whose environment stays that of the first steps.
    """
    if not repeats:
        return ledger
    return {
        **ledger,
        "environment": stored["environment"], "code": stored["code"],
        "entries": [*ledger["entries"], *entries_again(plan, repeats)],
        "epsilon_estimates": {},
        CHARGED_AGAIN: [asdict(one) for one in repeats],
    }  # fmt: skip


def environment_of(ledger: Mapping[str, Any]) -> Any:
    """Return the environment of the latest attempt."""
    repeats = repeats_of(ledger)
    return repeats[-1].environment if repeats else ledger.get("environment")


def repeat_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Return the lines of a ledger's page about them; none for most runs."""
    lines = [
        f"Steps {one.after + 1} to {ledger['steps']} were drawn again in another environment "
        f"({_differing(before, one.environment)}), by stream {one.stream_id}, and are charged "
        "again."
        for before, one in _with_before(ledger)
    ]
    return [*lines, f"{WHY}."] if lines else []


def _with_before(ledger: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Repeat]]:
    repeats = repeats_of(ledger)
    earlier = [ledger["environment"], *(one.environment for one in repeats)]
    return list(zip(earlier, repeats, strict=False))


def differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the names of what is not the same in two environments."""
    return ", ".join(name for name in {**now, **before} if before.get(name) != now.get(name))


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what changed, with its values; nothing if only the order of attempts is another."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return ", ".join(f"{n} {before.get(n)} → {now.get(n)}" for n in names) or "its start was lost"
