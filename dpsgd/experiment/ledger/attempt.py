"""An earlier attempt at the same run: whether its ledger may be written again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsgd.experiment.ledger.repeats import CHARGED_AGAIN


def check_same_release(stored: Any, ledger: Mapping[str, Any], folder: Path) -> str | None:
    """Return why ``ledger`` cannot take the place of ``stored``, the ledger of an earlier attempt.

    The same streams under another σ or other steps are another release: the same noise twice, which
    can be subtracted away. Steps that are charged again are added, by streams of their own, and
    nothing is taken out.
    """
    if not isinstance(stored, Mapping) or stored.get("ledger_version") != ledger["ledger_version"]:
        return None
    before, repeats = stored.get("entries"), ledger.get(CHARGED_AGAIN, [])
    more = len(repeats) - len(stored.get(CHARGED_AGAIN, []))
    kept = ledger["entries"][: len(before or [])] if more > 0 else ledger["entries"]
    if before == kept:
        return None
    return (
        f"{folder} holds an attempt with other entries in its ledger, from the same streams: the "
        "same noise would cover two different sums. Move that folder away if nothing from it was "
        "released, or use another seed"
    )
