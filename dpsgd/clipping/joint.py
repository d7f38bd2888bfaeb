"""A rule and whatever else is asked of each unit, released together by one Gaussian."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Granularity, Info, ReleasePurpose, State, Unit
from dpsgd.errors import ConfigError


class Query(Protocol):
    """Columns that are asked of each unit beside the rule, which does not know of them.

    Attributes:
        purpose: what the ledger calls it.
        columns: how many columns ``k`` there are.
        sensitivity: the declared L2 norm Δ of one unit's columns. What is longer is cut to Δ.

    """

    @property
    def purpose(self) -> ReleasePurpose: ...  # noqa: D102

    @property
    def columns(self) -> int: ...  # noqa: D102

    @property
    def sensitivity(self) -> float: ...  # noqa: D102

    def ask(self, norms: Tensor, weights: Tensor, info: Info) -> Tensor:
        """Map norms and the rule's weights ``[..., groups]`` to ``[..., k]``, each row by itself;
        ``info`` holds what may be known of each unit.
        """
        ...


@dataclass(frozen=True)
class Joint(ClipRule):
    """``rule`` with ``queries`` beside it, each of which takes its part of ``shares``.

    With s = Σ shares, the rule is bound with σ/√(1−s) and all its scales, those of its own queries
    included, grow by 1/√(1−s): it fills at most 1 − s of the envelope. Query i is cut to its
    declared norm Δ_i and has scale Δ_i/√s_i, which fills at most s_i. Together one Gaussian of
    multiplier σ covers everything, and ε is what it is without the queries: they are paid for by
    the gradient's noise, which is 1/√(1−s) times as large.

    It is a rule itself, so that a step need not know. Every column is asked in units of its own
    scale (``query_scale`` is 1, its noise has standard deviation σ): the rule's ``update`` gets its
    part back in its own units, and ``beside`` returns that of the queries. The state is the rule's.

    Raises ConfigError for shares that are not above 0 or leave nothing to the rule. ``bind`` raises
    it for σ = 0, where nothing would be noised, and where the rule's own queries need more than
    what is left: ρ + s ≥ 1.
    """

    rule: ClipRule
    queries: tuple[Query, ...]
    shares_beside: tuple[float, ...]
    name: str = field(init=False)
    unit: Unit = field(init=False)

    def __post_init__(self) -> None:
        for share in self.shares_beside:
            if not (math.isfinite(share) and share > 0):
                raise ConfigError("share", share, "must be above 0")
        if not sum(self.shares_beside) < 1:
            raise ConfigError(
                "share", sum(self.shares_beside), "must be below 1: the gradient needs the rest"
            )
        if len(self.shares_beside) != len(self.queries):
            raise ValueError(f"{len(self.queries)} queries, {len(self.shares_beside)} shares")
        if not self.rule.bounded:
            raise ConfigError("clip", self.rule.name, "bounds nothing, so that no noise covers it")
        object.__setattr__(self, "name", self.rule.name)
        object.__setattr__(self, "unit", self.rule.unit)

    @property
    def share(self) -> float:
        """Return s, what all queries together take."""
        return sum(self.shares_beside)

    @property
    def growth(self) -> float:
        """Return 1/√(1−s), by which the rule's scales grow."""
        return 1 / math.sqrt(1 - self.share)

    @property
    def granularity(self) -> Granularity:
        """Return the rule's."""
        return self.rule.granularity

    @property
    def partition(self) -> str | None:
        """Return the rule's."""
        return self.rule.partition

    def bind(self, groups: Groups, noise_multiplier: float, expected_units: float) -> State:
        """Return the rule's first state under σ/√(1−s)."""
        if not noise_multiplier > 0:
            raise ConfigError("noise_multiplier", noise_multiplier, "must be above 0 for queries")
        try:
            return self.rule.bind(groups, noise_multiplier * self.growth, expected_units)
        except ConfigError as error:
            raise ConfigError(
                error.key, error.value, error.allowed,
                f"σ is here {noise_multiplier:g}/√(1−{self.share:g}), because what is asked beside "
                f"the rule takes a share of {self.share:g} first. {error.hint}".strip(),
            ) from None  # fmt: skip

    def weights(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return the rule's."""
        return self.rule.weights(norms, state, info)

    def scale(self, state: State) -> Tensor:
        """Return the rule's, grown by 1/√(1−s)."""
        return self.rule.scale(state) * self.growth

    def threshold(self, state: State) -> float:
        """Return the rule's: weights do not change, and so C does not."""
        return self.rule.threshold(state)

    def query(self, norms: Tensor, state: State, info: Info) -> Tensor:
        """Return the rule's columns, then those of every query, each over its own scale."""
        own = self.rule.query(norms, state, info)
        found = [own / self._own_scale(state, own) if own.shape[-1] else own]
        weights = self.rule.weights(norms, state, info)
        for query, scale in zip(self.queries, self.beside_scale(), strict=True):
            asked = query.ask(norms, weights, info)
            found.append(cut(asked, query.sensitivity) / scale)
        return torch.cat([part.to(norms.dtype) for part in found], dim=-1)

    def query_scale(self, state: State) -> Tensor:
        """Return 1 for all columns."""
        return torch.ones(1, dtype=torch.float64)

    def beside_scale(self) -> list[float]:
        """Return Δ/√s of every query, in its own units: the noise on its sums has σ times that."""
        pairs = zip(self.queries, self.shares_beside, strict=True)
        return [query.sensitivity / math.sqrt(share) for query, share in pairs]

    def update(self, state: State, answer: Tensor) -> State:
        """Return the rule's next state from its own part of the answer, in its own units."""
        own = answer[: len(answer) - sum(query.columns for query in self.queries)]
        return self.rule.update(state, own * self._own_scale(state, own) if len(own) else own)

    def beside(self, answer: Tensor) -> dict[str, Tensor]:
        """Return the queries' parts of ``answer`` by purpose, in their own units: noised sums over
        ``expected_units``.
        """
        first = len(answer) - sum(query.columns for query in self.queries)
        found: dict[str, Tensor] = {}
        for query, scale in zip(self.queries, self.beside_scale(), strict=True):
            found[query.purpose] = answer[first : first + query.columns] * scale
            first += query.columns
        return found

    def shares(self, state: State) -> Mapping[ReleasePurpose, float]:
        """Return the rule's shares of what is left, then those of the queries; they add up to 1."""
        found: dict[ReleasePurpose, float] = {
            purpose: share * (1 - self.share) for purpose, share in self.rule.shares(state).items()
        }
        for query, share in zip(self.queries, self.shares_beside, strict=True):
            found[query.purpose] = found.get(query.purpose, 0.0) + share
        return found

    def _own_scale(self, state: State, like: Tensor) -> Tensor:
        return (self.rule.query_scale(state) * self.growth).to(like.device, torch.float64)


def beside(rule: ClipRule, answer: Tensor) -> dict[str, Tensor]:
    """Return what was asked beside ``rule`` in its ``answer``: nothing, unless it is a Joint."""
    return rule.beside(answer) if isinstance(rule, Joint) else {}


def cut(columns: Tensor, norm: float) -> Tensor:
    """Return ``columns`` ``[..., k]``, each row cut to L2 norm ``norm`` if it is longer; a row
    that is not finite becomes 0.
    """
    squared = columns.double().square().sum(-1, keepdim=True)
    if not squared.numel() or float(squared.max()) <= norm * norm * (1 + 1e-9):  # not if NaN
        return columns
    factor = (norm / squared.sqrt()).clamp(max=1.0).to(columns.dtype)
    return torch.where(torch.isfinite(squared), columns * factor, 0.0)
