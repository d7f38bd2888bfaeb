"""What the panel says of a run's ledger: ε by accountant, δ, unit, and what is not covered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis import schema
from analysis.page.numbers import rounded

_WORDS = ("certified_by", "unit", "unit_name", "relation", "randomness", "telemetry")


def ledger_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run folder's ledger; None where there is none to read.

    Keys: those of ``_WORDS`` that are stated; ``epsilon`` and ``accountants``, rounded up;
    ``delta``, ``sigma``, ``q``, ``steps``, ``records``; ``scheme``; and ``not_covered``, sentences.
    """
    try:
        content = json.loads((folder / schema.LEDGER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict):
        return None
    sampler = content.get("sampler")
    sampler = sampler if isinstance(sampler, Mapping) else {}
    stated = {word: str(content[word]) for word in _WORDS if content.get(word) is not None}
    return {
        **stated,
        "private": content.get("private") is True,
        "epsilon": _up(content.get("epsilon")),
        "accountants": _accountants(content.get("epsilon_by_accountant")),
        "delta": _number(content.get("delta")),
        "sigma": _number(content.get("noise_multiplier")),
        "q": _number(sampler.get("sampling_probability")),
        "scheme": str(sampler.get("stated", sampler.get("scheme", ""))),
        "steps": content.get("steps"),
        "records": content.get("n_units"),
        "not_covered": [str(line) for line in content.get("not_covered") or []],
    }


def _accountants(found: Any) -> dict[str, float | int | None]:
    if not isinstance(found, Mapping):
        return {}
    return {str(name): _up(value) for name, value in found.items()}


def _up(value: Any) -> float | int | None:
    """Return ε with 4 digits, never below it."""
    near = _number(value)
    if near is None or near >= value:
        return near
    step = 10.0 ** (int(f"{value:.0e}".split("e")[1]) - 3)
    return rounded(near + step)


def _number(value: Any) -> float | int | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    return rounded(value) if fits else None
