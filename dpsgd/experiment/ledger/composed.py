"""What a ledger's entries are together, to any accountant."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from dpsgd.accounting import DpEvent, no_privacy
from dpsgd.accounting.merging import composed, merged, noise_of
from dpsgd.accounting.stored import event_from_json
from dpsgd.errors import ConfigError
from dpsgd.experiment.ledger.entries import PURPOSES, by_draw, training_steps


def composed_event(ledger: Mapping[str, Any]) -> DpEvent:
    """Return the event of a whole run, from its entries alone.

    Entries of one draw merge into one event with (Σσ_i⁻²)^(−½); the draws compose. A run that is
    not private is the event that hides nothing.

    Raises:
        ConfigError: for an entry that lacks a key or whose words contradict its event, for
            entries of one draw that cannot be, and for steps that are in two draws.

    """
    if not ledger.get("private"):
        return no_privacy()
    entries = ledger.get("entries")
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise ConfigError("entries", entries, "must be a list of entries")
    for place, one in enumerate(entries):
        _check(f"entries[{place}]", one)
    draws = by_draw(entries)
    for stream in {stream for stream, _ in draws}:
        _check_apart([draw for of, draw in draws if of == stream])
    return composed(
        merged([event_from_json(one["event"]) for one in group]) for group in draws.values()
    )


def _check(key: str, one: Mapping[str, Any]) -> None:
    needed = ("purpose", "noise_multiplier", "steps", "draw_id", "stream_id", "event")
    for name in needed:
        if name not in one:
            raise ConfigError(f"{key}.{name}", None, "this key is required")
    if one["purpose"] not in PURPOSES:
        raise ConfigError(f"{key}.purpose", one["purpose"], f"one of {', '.join(PURPOSES)}")
    try:
        sigma = noise_of(event_from_json(one["event"]))
    except ConfigError as error:
        raise error.under(key) from None
    if one["noise_multiplier"] != sigma:
        raise ConfigError(
            f"{key}.noise_multiplier", one["noise_multiplier"], f"its event has {sigma!r}"
        )
    steps = training_steps(str(one["draw_id"]))
    if steps is not None and one["steps"] != len(steps):
        raise ConfigError(f"{key}.steps", one["steps"], f"its draw {one['draw_id']} has others")


def _check_apart(draws: list[str]) -> None:
    """Raise ConfigError for a step that is in two draws of one stream: one release, told as two."""
    known = [(draw, steps) for draw in draws if (steps := training_steps(draw)) is not None]
    known.sort(key=lambda pair: (pair[1].start, pair[1].stop))
    for (first, before), (second, after) in pairwise(known):
        if after.start < before.stop:
            raise ConfigError("entries", f"{first} and {second}", "draws share steps of training")
