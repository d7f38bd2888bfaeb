"""Events as JSON: a ledger holds what happened, so that any accountant can read it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from dpsgd.accounting.library import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dpsgd.accounting.sampled import FixedBatchesDpEvent
from dpsgd.errors import ConfigError

Stored = dict[str, Any]


def event_to_json(event: DpEvent) -> Stored:
    """Return ``event`` as plain data with a ``type`` and its numbers, finite ones only.

    Raises:
        ConfigError: for an event of another type, and for numbers that make no event.

    """
    for name, (cls, fields) in _KINDS.items():
        if type(event) is cls:
            values = {field: _plain(field, getattr(event, field)) for field in fields}
            stored: Stored = {"type": name, **values}
            event_from_json(stored)  # what cannot be read back is not written
            return stored
    raise ConfigError("event", type(event).__name__, _known())


def event_from_json(stored: object) -> DpEvent:
    """Return the event that ``event_to_json`` wrote, equal to it in every number.

    Raises:
        ConfigError: for an unknown type, a key too few or too many, and a number out of range.

    """
    if not isinstance(stored, Mapping):
        raise ConfigError("event", stored, "must be a mapping with a type")
    given = cast("Mapping[str, Any]", stored)
    name = given.get("type")
    if not isinstance(name, str) or name not in _KINDS:
        raise ConfigError("event.type", name, _known())
    cls, fields = _KINDS[name]
    keys = {key for key in given if key != "type"}
    if keys != set(fields):
        raise ConfigError(f"event {name}", sorted(keys), f"needs exactly {sorted(fields)}")
    return cls(**{field: read(f"{name}.{field}", given[field]) for field, read in fields.items()})


def _plain(field: str, value: Any) -> Any:
    if isinstance(value, DpEvent):
        return event_to_json(value)
    if field == "events":
        return [event_to_json(part) for part in value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [float(number) for number in cast("Sequence[float]", value)]
    return value


def _event(key: str, value: object) -> DpEvent:
    return event_from_json(value)


def _events(key: str, value: object) -> list[DpEvent]:
    return [event_from_json(part) for part in _listed(key, value)]


def _listed(key: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise ConfigError(key, value, "must be a list")
    return cast("list[object]", value)


def _number(low: float, high: float, *, open_low: bool) -> Callable[[str, object], float]:
    def read(key: str, value: object) -> float:
        number = math.nan
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        if not (math.isfinite(number) and low <= number <= high):
            raise ConfigError(key, value, f"must be a number from {low:g} to {high:g}")
        if open_low and number == low:
            raise ConfigError(key, value, f"must be above {low:g}")
        return number

    return read


def _whole(low: int) -> Callable[[str, object], int]:
    def read(key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ConfigError(key, value, f"must be a whole number, at least {low}")
        return value

    return read


def _numbers(read: Callable[[str, object], float]) -> Callable[[str, object], tuple[float, ...]]:
    return lambda key, value: tuple(read(key, number) for number in _listed(key, value))


def _known() -> str:
    return f"must be one of {', '.join(_KINDS)}"


_NOISE = _number(0.0, math.inf, open_low=False)
_PROBABILITY = _number(0.0, 1.0, open_low=True)
_SHARE = _number(0.0, 1.0, open_low=False)

_Read = Callable[[str, object], Any]
_KINDS: dict[str, tuple[Callable[..., DpEvent], dict[str, _Read]]] = {
    "NoOp": (NoOpDpEvent, {}),
    "NonPrivate": (NonPrivateDpEvent, {}),
    "Gaussian": (GaussianDpEvent, {"noise_multiplier": _NOISE}),
    "PoissonSampled": (
        PoissonSampledDpEvent,
        {"sampling_probability": _PROBABILITY, "event": _event},
    ),
    "TruncatedSubsampledGaussian": (
        TruncatedSubsampledGaussianDpEvent,
        {
            "dataset_size": _whole(1),
            "sampling_probability": _PROBABILITY,
            "truncated_batch_size": _whole(1),
            "noise_multiplier": _NOISE,
        },
    ),
    "MixtureOfGaussians": (
        MixtureOfGaussiansDpEvent,
        {
            "standard_deviation": _NOISE,
            "sensitivities": _numbers(_number(0.0, math.inf, open_low=False)),
            "sampling_probs": _numbers(_SHARE),
        },
    ),
    "FixedBatches": (FixedBatchesDpEvent, {"noise_multiplier": _NOISE, "epochs": _whole(1)}),
    "SelfComposed": (SelfComposedDpEvent, {"event": _event, "count": _whole(0)}),
    "Composed": (ComposedDpEvent, {"events": _events}),
    "RepeatAndSelect": (
        RepeatAndSelectDpEvent,
        {
            "event": _event,
            "mean": _number(0.0, math.inf, open_low=True),
            "shape": _number(-1.0, math.inf, open_low=True),
        },
    ),
}
