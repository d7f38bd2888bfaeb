"""Every step has its entries: those that were planned, and those that were charged again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import schema
from dpsgd.experiment.ledger.entries import training_steps
from dpsgd.experiment.ledger.repeats import Repeat, repeats_of
from dpsgd.experiment.prepared import COMMON_NOISE
from dpsgd.experiment.verify.finding import Findings
from dpsgd.randomness import Streams

_WHERE = f"{schema.LEDGER_FILE} against {schema.CONFIG_FILE}"
_ENTRIES = f"entries of {schema.LEDGER_FILE}"


def beginnings(ledger: Mapping[str, Any]) -> dict[str, int]:
    """Return after which step the draws of each stream began: of the first one after step 0."""
    again = {one.stream_id: one.after for one in repeats_of(ledger)}
    return {str(ledger["stream_id"]): 0, **again}


def check_streams(ledger: Mapping[str, Any], config: Mapping[str, Any], findings: Findings) -> None:
    """Compare whose noise this is: what ``compose`` trusts, so as not to add two sums of one."""
    shared = bool(config["debug"]["common_noise"])
    findings.equal("common_noise", _WHERE, shared, ledger["common_noise"])
    if not config["release"]:
        of = COMMON_NOISE if shared else ledger["run_key"]
        streams = Streams.from_seed(config["seed"], of)
        findings.equal("stream_id", _WHERE, streams.stream_id, ledger["stream_id"])
        for one in repeats_of(ledger):
            stream = one.streams(streams).stream_id
            findings.equal(f"stream_id of epoch {one.epoch}", _WHERE, stream, one.stream_id)
    known = beginnings(ledger)
    for place, one in enumerate(ledger["entries"]):
        if one["stream_id"] not in known:
            findings.equal(f"entries[{place}].stream_id", _WHERE, ledger["stream_id"],
                           one["stream_id"])  # fmt: skip


def check_coverage(ledger: Mapping[str, Any], findings: Findings) -> None:
    """Every step from the beginning of each stream to the last has an entry, and none is beyond."""
    repeats = repeats_of(ledger)
    if not ledger["private"]:
        findings.equal("charged again without privacy", schema.LEDGER_FILE, 0, len(repeats))
        return
    known = [str(ledger["stream_id"])]
    for place, one in enumerate(repeats):
        _check_repeat(f"charged_again[{place}]", one, place, known, ledger["steps"], findings)
        known.append(one.stream_id)
    for stream, after in beginnings(ledger).items():
        of = "" if stream == ledger["stream_id"] else f" of stream {stream}"
        steps = [
            training_steps(str(one["draw_id"]))
            for one in ledger["entries"]
            if one["stream_id"] == stream
        ]
        covered = {step for some in steps if some is not None for step in some}
        expected = set(range(after + 1, ledger["steps"] + 1))
        missing, beyond = sorted(expected - covered), sorted(covered - expected)
        what = f"steps{of} without an entry"
        findings.that(not missing, what, _ENTRIES, "none", _range(missing))
        what = f"steps{of} beyond those planned"
        findings.that(not beyond, what, _ENTRIES, "none", _range(beyond))


def _check_repeat(
    what: str, one: Repeat, place: int, known: list[str], steps: int, findings: Findings
) -> None:
    where = schema.LEDGER_FILE
    findings.equal(f"{what}.epoch", where, place + 1, one.epoch)
    new = one.stream_id not in known
    findings.that(new, f"{what}.stream_id", where, "a stream of its own", one.stream_id)
    whole = isinstance(one.after, int) and 0 <= one.after <= steps  # pyright: ignore[reportUnnecessaryIsInstance]
    findings.that(whole, f"{what}.after", where, f"a step up to {steps}", one.after)
    fits = one.origin in known if one.after else one.origin is None
    findings.that(fits, f"{what}.origin", where, "a stream that came before", one.origin)


def _range(steps: list[int]) -> str:
    return f"{len(steps)}, {steps[0]} to {steps[-1]}" if steps else "none"
