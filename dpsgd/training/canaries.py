"""Canaries made of gradients: units that are known, put before the norms, read in the updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.engine.gradients import UnitGradients
from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw
from dpsgd.training.reading import Reading
from dpsgd.training.step import Step

_SIZES = torch.logspace(-3, 12, 151, dtype=torch.float64)
"""Norms that are tried, in units of the rule's scale: some rules drop what is too long, and
`global_adapt` shortens what is below a bound that moves far up where many canaries are above it.
"""
_FINER = torch.logspace(-0.1, 0.1, 81, dtype=torch.float64)
"""Norms that are tried around the best of them."""
_AS_GOOD = 1 - 1e-4
"""Norms are taken for as good as the best one if they fill so much of what it fills."""
_LONGER = 1e3
"""How much longer than the shortest that is as good a canary is at most."""

NO_CANARIES = torch.zeros(0, dtype=torch.int64)


def check_fits(count: int, like: Mapping[str, Tensor]) -> None:
    """Raise ConfigError unless some trained parameter has a coordinate for each canary."""
    largest = max(value.numel() for value in like.values())
    if count > largest:
        raise ConfigError(
            "audit.canaries", count, f"must be at most {largest}, the size of this model's "
            "largest parameter: a coordinate holds one canary",
        )  # fmt: skip


@dataclass(frozen=True)
class CanaryUnits:
    """Units whose gradient is known, numbered from ``first`` on among a sampler's units.

    The gradient of a canary is one coordinate in each clip group that has as many coordinates as
    there are canaries, so that no two of them meet (Nasr et al., "Tight auditing of differentially
    private machine learning", USENIX Security 2023, Dirac canaries).

    Attributes:
        first: how many units the data have.
        included: ``[canaries]`` bool, the coins. A canary that is not included is drawn like any
            other, and contributes nothing.
        places: ``[canaries, groups]`` int64, its coordinate in ``holders``; −1 in a group that is
            too small.
        holders: of each clip group the parameter that holds the coordinates.
        records: how many a canary brings, each drawn and clipped by itself, all of one gradient;
            1 where a unit is drawn as a whole.

    """

    first: int
    included: Tensor
    places: Tensor
    holders: tuple[str, ...]
    records: int

    @classmethod
    def of(
        cls, first: int, count: int, like: Mapping[str, Tensor], groups: Groups, streams: Streams,
        records: int = 1,
    ) -> CanaryUnits:  # fmt: skip
        """Return ``count`` canaries whose coins and places come from ``streams``; ``like`` holds
        the trained parameters. Raises ConfigError if there are more than coordinates.
        """
        generator = streams.generator("canary")
        included = torch.rand(count, generator=generator, dtype=torch.float64) < 0.5
        places: list[Tensor] = []
        holders: list[str] = []
        for members in groups.parameters:
            holder = max(members, key=lambda name: like[name].numel())
            size = like[holder].numel()
            places.append(
                torch.randperm(size, generator=generator)[:count]
                if size >= count
                else torch.full((count,), -1)
            )
            holders.append(holder)
        check_fits(count, like)
        return cls(first, included, torch.stack(places, dim=1), tuple(holders), records)

    @property
    def direction(self) -> Tensor:
        """``[groups]`` float64: the share of each clip group in a canary, of length 1."""
        used = (self.places[0] >= 0).double()
        return used / used.norm()

    def split(self, draw: Draw) -> tuple[Draw, Tensor]:
        """Return the draw without canaries, and which of them were in it, ascending, whatever their
        coins; one of which several records were drawn is there as often.
        """
        members = draw.members
        if bool((members[1:] > members[:-1]).all()):
            data = int(torch.searchsorted(members, self.first))
            rows = int(torch.searchsorted(draw.unit, data))
            drawn = (members[data:] - self.first) // self.records
            return Draw(draw.records[:rows], draw.unit[:rows], members[:data]), drawn
        ours = members >= self.first
        drawn = (members[ours] - self.first) // self.records
        position = torch.cumsum(~ours, 0) - 1
        rows = ~ours[draw.unit]
        of_data = Draw(draw.records[rows], position[draw.unit[rows]], members[~ours])
        return of_data, drawn.sort().values


@dataclass(frozen=True)
class CanaryBatch:
    """The gradients of the canaries ``drawn`` in a step, all of ``norm`` ``[groups]``."""

    canaries: CanaryUnits
    drawn: Tensor
    norm: Tensor
    like: Mapping[str, Tensor]

    @property
    def losses(self) -> Tensor:
        """``[0]`` losses: there are no rows."""
        return next(iter(self.like.values())).new_zeros(0)

    def norms(self) -> Tensor:
        """``[canaries, groups]``, float32."""
        return self.norm.expand(len(self.drawn), -1)

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·g_u for every parameter, given ``[canaries, groups]`` weights."""
        total = {name: torch.zeros_like(value) for name, value in self.like.items()}
        for group, holder in enumerate(self.canaries.holders):
            places = self.canaries.places[self.drawn, group].to(weights.device)
            if len(places) and int(places[0]) >= 0:
                values = (weights[:, group] * self.norm[group]).to(total[holder].dtype)
                total[holder].view(-1).index_add_(0, places, values)
        return total

    def without(self, dropped: Tensor) -> UnitGradients:
        """Raise ValueError: a canary's norm is finite, so that none is ever dropped."""
        raise ValueError("a canary cannot be dropped")


@dataclass(frozen=True)
class Watched:
    """A micro-batch of the data whose part of the sum is noted."""

    inner: UnitGradients
    canaries: Canaries

    @property
    def losses(self) -> Tensor:
        """``[rows]`` losses, detached."""
        return self.inner.losses

    def norms(self) -> Tensor:
        """``[units, groups]``, as they are."""
        return self.inner.norms()

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u as it is, noted on the way."""
        total = self.inner.weighted_sum(weights)
        self.canaries.note(total)
        return total

    def without(self, dropped: Tensor) -> UnitGradients:
        """Return the batch with the ``dropped`` units zero."""
        return Watched(self.inner.without(dropped), self.canaries)


@dataclass
class Canaries:
    """The canaries of a run, and what was read of each so far: see :class:`Reading`.

    They are as long as the rule lets them be useful. One that is clipped by far says what one that
    just fills the envelope cannot: whether clipping took place, and of a unit as a whole.

    The attacker is the one that a guarantee is given against: it sees every noised update, and
    knows all records of the data and when they were drawn, so that their part of an update is
    taken off it. (That part depends on a canary through earlier noised updates alone, and so the
    guarantee covers whoever is told of it.) What it does not know are the canaries' coins, and when
    they were drawn, if there is a ``probability`` of that by which the guarantee is amplified.
    """

    units: CanaryUnits
    like: Mapping[str, Tensor]
    probability: float | None
    noise_multiplier: float
    reading: Reading = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.units.included)
        self.reading = Reading(count, self.probability, self.units.records)
        self._drawn = torch.zeros(count, dtype=torch.int64)
        self._filled: _Filled | None = None
        self._known = torch.zeros(self.units.places.shape, dtype=torch.float64)
        device = next(iter(self.like.values())).device
        self._nothing = torch.zeros(count, dtype=torch.float64, device=device)
        columns = self.units.places.T.contiguous().to(device)
        self._places = [None if int(places[0]) < 0 else places for places in columns]

    def apart(self, draw: Draw) -> tuple[Draw, Tensor]:
        """Return the draw without canaries, and those in it whose coin says so, ascending."""
        of_data, drawn = self.units.split(draw)
        if self.probability is None:
            self._drawn = torch.bincount(drawn, minlength=len(self.units.included))
        return of_data, drawn[self.units.included[drawn]]

    def watched(self, batches: Iterable[UnitGradients]) -> Iterator[UnitGradients]:
        """Pass the data's micro-batches of one step on, noting what they add where canaries are."""
        self._known = torch.zeros(self.units.places.shape, dtype=torch.float64)
        for gradients in batches:
            yield Watched(gradients, self)

    def note(self, total: Mapping[str, Tensor]) -> None:
        """Remember what a micro-batch of the data adds at the canaries' places."""
        self._known += self._at_places(total)

    def batch(self, drawn: Tensor, rule: ClipRule, state: State, info: Info) -> CanaryBatch:
        """Return the gradients of ``drawn``, of the norm at which the rule lets most through.

        ``info`` is that of one canary ``[1, ...]``.
        """
        norm = self._fill(rule, state, info).norm
        device = next(iter(self.like.values())).device
        return CanaryBatch(self.units, drawn, norm.float().to(device), self.like)

    def read(self, result: Step, expected_units: float) -> None:
        """Add what the step's noised update says of every canary, the data's part taken off."""
        if self._filled is None:
            raise RuntimeError("a step is read after its canaries were put into it")
        weights, full = self._filled.weights, self._filled.full
        update = self._at_places(result.mean) - self._known
        if result.noise is not None:
            update += self._at_places(result.noise)
        found = update @ (weights * expected_units)
        self.reading.add(found, self.noise_multiplier**2 / full, self._drawn)

    def _at_places(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return ``[canaries, groups]`` float64 on the CPU: what ``values`` hold at their places,
        0 in a group that is left out.
        """
        columns = [
            self._nothing if places is None
            else values[holder].reshape(-1).index_select(0, places).double()
            for holder, places in zip(self.units.holders, self._places, strict=True)
        ]  # fmt: skip
        return (columns[0].unsqueeze(1) if len(columns) == 1 else torch.stack(columns, 1)).cpu()

    def _fill(self, rule: ClipRule, state: State, info: Info) -> _Filled:
        """Return how a canary fills the envelope most, the longest norm if there are several."""
        if self._filled is None or self._filled.state is not state:
            scale = rule.scale(state).double()
            tried = _SIZES.unsqueeze(1) * scale * self.units.direction
            norm, _ = _longest(tried, scale, rule, state, info)
            norm, parts = _longest(_FINER.unsqueeze(1) * norm, scale, rule, state, info)
            full = float(parts.square().sum())
            self._filled = _Filled(state, norm, parts / scale / full, full)
        return self._filled


@dataclass(frozen=True)
class _Filled:
    """In a rule's ``state`` a canary has ``norm`` ``[groups]``. w_g·n_g/scale_g is its part of the
    envelope in a clip group: ``full`` is the sum of their squares, and ``weights`` ``[groups]``
    make 1 of what it adds to a sum.
    """

    state: State
    norm: Tensor
    weights: Tensor
    full: float


def _longest(
    tried: Tensor, scale: Tensor, rule: ClipRule, state: State, info: Info
) -> tuple[Tensor, Tensor]:
    """Return of the norms ``tried`` ``[norms, groups]``, ascending, one of the best, and its parts:
    far longer than the shortest of those, but not so far that what escapes clipping overflows.
    """
    beside = {key: value.expand(len(tried), -1) for key, value in info.items()}
    parts = rule.weights(tried, state, beside) * tried / scale
    filled = parts.square().sum(1)
    good = torch.nonzero(filled >= _AS_GOOD * filled.max()).flatten()
    length = tried[good].norm(dim=1)
    best = int(good[length <= _LONGER * length[0]][-1])
    return tried[best], parts[best]
