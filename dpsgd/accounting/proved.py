"""What each accountant was proved right for: anything else is refused, known or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from dpsgd.accounting.accountant import Relation
from dpsgd.accounting.events import with_float_noise
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

Kind = Literal["gaussian", "poisson", "joint_poisson", "truncated", "mixture", "fixed", "selected"]
"""Plain Gaussians; a Poisson draw released by one Gaussian, or by several; a truncated draw; a
mixture of Gaussians; fixed batches; the best of a random number of runs.
"""

Proved: TypeAlias = Mapping[Kind, Collection[Relation]]

ALL: tuple[Relation, ...] = ("add_or_remove_one", "replace_one", "replace_special")
COUNTED_OR_NOT: tuple[Relation, ...] = ("add_or_remove_one", "replace_special")
"""Add-or-remove-one and zero-out: one unit contributes or does not."""
IN_PLACE: tuple[Relation, ...] = ("replace_one", "replace_special")
"""Replace-one and zero-out: the number of units is the same."""

_WORDS: dict[str, str] = {
    "gaussian": "plain Gaussian releases (full batches)",
    "poisson": "Poisson sampling",
    "joint_poisson": "several releases of one Poisson draw",
    "truncated": "Poisson sampling with a cap on the batch",
    "mixture": "Poisson sampling of capped users' records",
    "fixed": "shuffled fixed batches",
    "selected": "the best of a random number of runs",
}


def proved_event(accountant: str, event: DpEvent, relation: Relation, proved: Proved) -> DpEvent:
    """Return ``event`` in the form that dp-accounting computes with.

    Raises:
        ConfigError: a part of ``event`` whose kind is not among ``proved`` under ``relation``.

    """
    for part, kind in _parts(event):
        if kind is None or relation not in proved.get(kind, ()):
            raise _refused(accountant, kind, relation, proved, part)
    return _expanded(with_float_noise(event))


def _refused(
    accountant: str, kind: Kind | None, relation: Relation, proved: Proved, part: DpEvent
) -> ConfigError:
    if kind == "fixed" and relation == "add_or_remove_one":
        return ConfigError(
            "relation", relation,
            "cannot be accounted for with shuffled fixed batches, where a unit more moves the "
            "others; use relation=replace_one or replace_special, or sampling=poisson",
        )  # fmt: skip
    if kind == "mixture" and relation == "replace_one":
        return ConfigError(
            "relation", relation,
            "cannot be accounted for with sampling=poisson_capped_users; use "
            "relation=add_or_remove_one or replace_special",
        )  # fmt: skip
    what = "this event" if kind is None else f"this event, {_WORDS[kind]},"
    instead = "" if accountant == "pld" or kind is None else "; use accountant=pld"
    allowed = f"cannot account for {what} under relation={relation}{instead}"
    hint = f"{type(part).__name__} is not an event that it was proved right for"
    return ConfigError("accountant", accountant, allowed, hint if kind is None else "")


def _parts(event: DpEvent) -> list[tuple[DpEvent, Kind | None]]:
    """Return the releases of ``event`` with their kinds; None: a kind that nobody knows."""
    if isinstance(event, SelfComposedDpEvent):
        return _parts(event.event)
    if isinstance(event, ComposedDpEvent):
        return [found for part in event.events for found in _parts(part)]
    if isinstance(event, RepeatAndSelectDpEvent):
        return [(event, "selected"), *_parts(event.event)]
    # These cost nothing and everything, by every accountant and under every relation.
    if isinstance(event, NoOpDpEvent | NonPrivateDpEvent):
        return []
    return [(event, _kind(event))]


def _kind(event: DpEvent) -> Kind | None:
    # By the very class: what inherits from a known event may mean something else.
    if type(event) is PoissonSampledDpEvent:
        if type(event.event) is GaussianDpEvent:
            return "poisson"
        inner = [kind for _, kind in _parts(event.event)]
        return "joint_poisson" if inner and set(inner) == {"gaussian"} else None
    return _KINDS.get(type(event))


_KINDS: dict[type[DpEvent], Kind] = {
    GaussianDpEvent: "gaussian",
    TruncatedSubsampledGaussianDpEvent: "truncated",
    MixtureOfGaussiansDpEvent: "mixture",
    FixedBatchesDpEvent: "fixed",
}


def _expanded(event: DpEvent) -> DpEvent:
    """Return ``event`` with fixed batches as the Gaussians that they are under its relations."""
    if isinstance(event, FixedBatchesDpEvent):
        return event.as_gaussians()
    if isinstance(event, SelfComposedDpEvent):
        return SelfComposedDpEvent(_expanded(event.event), event.count)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([_expanded(part) for part in event.events])
    if isinstance(event, RepeatAndSelectDpEvent):
        return RepeatAndSelectDpEvent(_expanded(event.event), event.mean, event.shape)
    return event
