"""From what a ledger holds of a sampler to its event: the one place where events are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpsgd.accounting.events import poisson_gaussian
from dpsgd.accounting.library import DpEvent
from dpsgd.accounting.sampled import capped_users, fixed_batches, full_batches, truncated_gaussian
from dpsgd.errors import ConfigError


def event_of(facts: Mapping[str, Any], noise_multiplier: float, steps: int) -> DpEvent:
    """Return the event of ``steps`` draws of a sampler with these ``facts``.

    A sampler's ``event`` is made here, so that a ledger's facts, read back, make the same.

    Raises:
        ConfigError: a scheme that is not known, a fact that is missing or out of its range, or a
            noise multiplier or number of steps that cannot be.

    """
    scheme = str(facts.get("scheme"))
    if scheme not in _EVENTS:
        raise ConfigError("scheme", scheme, f"one of {', '.join(_EVENTS)}")
    make, names = _EVENTS[scheme]
    for name in names:
        if name not in facts:
            raise ConfigError(name, None, f"is missing for scheme={scheme}")
    return make(*(facts[name] for name in names), noise_multiplier, steps)


def steps_to_charge(facts: Mapping[str, Any], first: int, last: int) -> int:
    """Return how many steps from step 1 on cost at least what steps ``first`` to ``last`` cost.

    Where steps are alike, as many as there are. An epoch of fixed batches that was begun is paid
    for in full, wherever in it one begins. Of a scheme that is not known, all up to ``last``.
    """
    if facts.get("scheme") == "shuffled":
        epoch = int(facts["steps_per_epoch"])
        return last - (first - 1) // epoch * epoch
    return last - first + 1 if facts.get("scheme") in _EVENTS else last


_EVENTS: dict[str, tuple[Callable[..., DpEvent], tuple[str, ...]]] = {
    "poisson": (poisson_gaussian, ("sampling_probability",)),
    "poisson_truncated": (truncated_gaussian, ("dataset_size", "sampling_probability", "cap")),
    "full": (full_batches, ()),
    "shuffled": (fixed_batches, ("steps_per_epoch",)),
    "poisson_capped_users": (capped_users, ("max_records_per_user", "sampling_probability")),
}
