"""An earlier attempt at the same run: whether it may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsgd.experiment.ledger.environment import environment


def check_attempt(stored: Any, folder: Path, device: str) -> str | None:
    """Return why the attempt that left ``stored`` cannot be repeated, or None if it can.

    On the same machine, versions and code the keyed streams repeat it bit by bit, so that nothing
    new is released. Elsewhere the repeated steps would be another release.
    """
    if stored is None or stored.get("environment") == environment(device):
        return None
    return (
        f"{folder} holds an attempt from another environment ({_differs(stored, device)}), whose "
        "steps would not be repeated bit by bit and so would cost ε again; move that folder away "
        "if nothing from it was released, or use another seed"
    )


def _differs(stored: Mapping[str, Any], device: str) -> str:
    before, now = stored.get("environment") or {}, environment(device)
    return ", ".join(name for name in {**now, **before} if before.get(name) != now.get(name))


def check_same_release(stored: Any, ledger: Mapping[str, Any], folder: Path) -> str | None:
    """Return why ``ledger`` cannot take the place of ``stored``, the ledger of an earlier attempt.

    The same streams under another σ or other steps are another release: the same noise twice, which
    can be subtracted away.
    """
    if not isinstance(stored, Mapping) or stored.get("ledger_version") != ledger["ledger_version"]:
        return None
    if stored.get("entries") == ledger["entries"]:
        return None
    return (
        f"{folder} holds an attempt with other entries in its ledger, from the same streams: the "
        "same noise would cover two different sums. Move that folder away if nothing from it was "
        "released, or use another seed"
    )
