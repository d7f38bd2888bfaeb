"""What recorders hold, as plain data: tensors, lists, numbers and words, for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpsgd.telemetry.recorder import Row, StepFacts
from dpsgd.telemetry.reduce import Reduced


def rows_kept(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows by column; a row without a value has None there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_plain(row.get(name)) for row in rows] for name in names}


def rows_again(kept: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Return the rows of ``rows_kept``."""
    return [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)]


def sums_kept(sums: Sequence[Reduced]) -> dict[str, Tensor]:
    """Return the windows' sums, each field of all windows ``[windows, ...]`` together."""
    return {
        field.name: torch.from_numpy(np.stack([getattr(one, field.name) for one in sums]))
        for field in fields(Reduced)
        if sums
    }


def sums_again(kept: Mapping[str, Tensor]) -> list[Reduced]:
    """Return the windows of ``sums_kept``."""
    whole = {name: value.numpy() for name, value in kept.items()}
    count = len(next(iter(whole.values()), ()))
    return [Reduced(**{name: value[i] for name, value in whole.items()}) for i in range(count)]


def facts_kept(facts: StepFacts) -> dict[str, Any]:
    """Return one step's facts, in copies on the CPU: a tensor may be a view of something large."""
    return {
        "step": facts.step, "threshold": facts.threshold, "dropped": list(facts.dropped),
        "answers": {name: _copy(value) for name, value in facts.answers.items()},
        **{name: _copy(getattr(facts, name)) for name in ("members", "norms", "weights", "losses")},
    }  # fmt: skip


def facts_again(kept: Mapping[str, Any]) -> StepFacts:
    """Return the facts of ``facts_kept``."""
    return StepFacts(**kept)


def _copy(value: Tensor) -> Tensor:
    return value.detach().cpu().clone()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
