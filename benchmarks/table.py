"""What the benchmark prints: one line a method, one block of columns a model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

LABEL = 16
COLUMNS = {"step": 5, "noise": 6, "mem": 5}
"""The numbers of a model and their widths."""

BLOCK = sum(COLUMNS.values())


@dataclass(frozen=True)
class Result:
    """One method on one model. Ratios are to the plain SGD step that was timed beside it.

    ``reason`` says why a method could not be measured; then every number is None.
    """

    model: str
    method: str
    plain_ms: float | None = None
    step_ms: float | None = None
    noise_ms: float | None = None
    ratio: float | None = None
    noise_ratio: float | None = None
    memory_ratio: float | None = None
    first_memory_ratio: float | None = None
    peak_tensor_bytes: int | None = None
    resident_ratio: float | None = None
    peak_resident_bytes: int | None = None
    reason: str | None = None

    def json(self) -> dict[str, Any]:
        """Return the row without what was not measured, numbers to four digits."""
        return {
            key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in asdict(self).items()
            if value is not None
        }


def lines(results: list[Result], models: list[str]) -> list[str]:
    """Return the table: 16 characters, and 16 a model."""
    methods = list(dict.fromkeys(result.method for result in results))
    of = {(result.model, result.method): result for result in results}
    text = [
        " " * LABEL + "".join(f"{model:>{BLOCK}}" for model in models),
        f"{'ratio to sgd':{LABEL}}"
        + len(models) * "".join(f"{h:>{w}}" for h, w in COLUMNS.items()),
    ]
    for method in methods:
        blocks = [_block(of[model, method]) for model in models]
        text.append((f"{method:{LABEL}}" + "".join(blocks)).rstrip())
    return text


def _block(result: Result) -> str:
    if result.reason is not None:
        short = result.reason if len(result.reason) < BLOCK else "—"
        return f"{short:>{BLOCK}}"
    shown = (result.ratio, result.noise_ratio, result.memory_ratio)
    cells = zip(shown, COLUMNS.values(), strict=True)
    return "".join(f"{short_number(value):>{width}}" for value, width in cells)


def short_number(value: float | None) -> str:
    """Return a number in at most four characters, and nothing for None."""
    if value is None:
        return ""
    if not math.isfinite(value) or value >= 9999:
        return "++"
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"
