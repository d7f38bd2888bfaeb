"""The recorder that a training loop talks to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

from torch import Tensor

from dpsgd.clipping.rule import State

SliceKeys: TypeAlias = Sequence[tuple[str, str]]
Row: TypeAlias = dict[str, Any]
Bias: TypeAlias = Mapping[str, Mapping[str, float]]
"""By clip group, ``all`` first and then every layer: statistic to value."""


class StepFacts(NamedTuple):
    """One step as telemetry sees it: references to tensors that the step computed anyway.

    ``dropped`` are the positions of the units that were left out because their gradient was not
    finite; ``losses`` are without their rows. ``answers`` holds what was asked beside the rule, by
    purpose: noised sums over ``expected_units``, the only thing here that is inside ε.
    """

    step: int
    members: Tensor
    norms: Tensor
    weights: Tensor
    losses: Tensor
    threshold: float
    dropped: Sequence[int] = ()
    answers: Mapping[str, Tensor] = MappingProxyType({})


class Recorder(Protocol):
    """Takes every step's facts; its rows are written at the end."""

    rows: list[Row]

    def before(self, step: int, state: State) -> None:
        """Look at the model as ``step`` finds it, with the rule's state, and change nothing."""
        ...

    def wants_bias(self, step: int) -> bool:
        """Whether this step should compute the raw mean too."""
        ...

    def add(self, facts: StepFacts) -> None:
        """Take one step."""
        ...

    def add_bias(self, step: int, values: Bias) -> None:
        """Take the clipped mean's comparison with the raw mean, of all of it and by layer."""
        ...

    def finish(self) -> None:
        """Reduce what is left in the buffer."""
        ...

    def totals(self) -> list[Row]:
        """Clip fraction and kept by slice over the whole of training (``schema.CELL_METRICS``)."""
        ...

    def state(self) -> dict[str, Any]:
        """Return all that was recorded so far, as tensors, lists, numbers and words."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was."""
        ...

    @property
    def clip_fraction(self) -> float | None:
        """The latest window's clip fraction of all units, for the progress bar."""
        ...


@dataclass
class NoRecorder:
    """Keeps nothing."""

    rows: list[Row] = field(default_factory=list)
    clip_fraction: float | None = None

    def before(self, step: int, state: State) -> None:
        """Look at nothing."""

    def wants_bias(self, step: int) -> bool:
        """Return False."""
        return False

    def add(self, facts: StepFacts) -> None:
        """Keep nothing."""

    def add_bias(self, step: int, values: Bias) -> None:
        """Keep nothing."""

    def finish(self) -> None:
        """Nothing to reduce."""

    def totals(self) -> list[Row]:
        """Return no rows."""
        return []

    def state(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing was kept."""
