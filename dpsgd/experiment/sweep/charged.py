"""What cells cost beyond what they planned: steps that an earlier run of them charged again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from analysis import schema
from dpsgd.accounting import DpEvent
from dpsgd.experiment.files import read_json
from dpsgd.experiment.ledger.composed import composed_event
from dpsgd.experiment.ledger.repeats import CHARGED_AGAIN


def charged_again(folders: Iterable[Path]) -> list[DpEvent]:
    """Return the event of the steps charged again of each run folder whose ledger has any.

    Raises ConfigError for entries that cannot be.
    """
    return [event for folder in folders if (event := _again(folder)) is not None]


def _again(folder: Path) -> DpEvent | None:
    file = folder / schema.LEDGER_FILE
    try:  # most have none: a ledger is looked through before it is taken apart
        if CHARGED_AGAIN.encode() not in file.read_bytes():
            return None
    except OSError:
        return None
    ledger = read_json(file)
    if not isinstance(ledger, dict) or not ledger.get(CHARGED_AGAIN):
        return None
    entries = [one for one in ledger["entries"] if one["stream_id"] != ledger["stream_id"]]
    return composed_event({**ledger, "entries": entries}) if entries else None
