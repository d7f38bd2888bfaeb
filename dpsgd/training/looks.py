"""Looks at the validation split while training: raw where it is public, noised where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd.clipping.rule import Unit
from dpsgd.data.bundle import Split
from dpsgd.noise import query_noise
from dpsgd.randomness import Streams
from dpsgd.sources import Source
from dpsgd.training.decide import Validation
from dpsgd.training.evaluate import correct

SENSITIVITY = 0.5
"""How far one unit can move the sum of answers under add-or-remove-one, see ``Looks``."""

LookRelease = Literal["public", "accounted", "private"]


@dataclass(frozen=True)
class Looks:
    """How a run looks at its validation split.

    A unit's answer is the share of its validation records that the model gets right, a ∈ [0, 1]: of
    a record 0 or 1 (of task ``tokens`` the share of its tokens), of a user the mean over all of
    the user's records, however many. A look releases Σ_u (a_u − ½) + N(0, (σ·½)²).

    Formal guarantee: |a_u − ½| ≤ ½, so that adding or removing a unit, or letting it contribute
    nothing (zero-out), moves the sum by at most ½: a Gaussian mechanism of noise multiplier σ, in
    which every unit takes part with certainty. Putting another unit in its place moves it by at
    most 1, twice as much, which the accountant of replace-one knows of. (A count of 0s and 1s moves
    by 1 under either: centring halves the noise of add-or-remove-one.) What is shown is the sum /
    ``units`` + ½, the accuracy; ``units`` is declared, a constant: that is post-processing.

    Looks and training steps are composed sequentially. At record level nobody is in both splits,
    and parallel composition would charge the larger of the two; a user may well be in both, and a
    look asks about parameters that came of the training records. Sequential composition is
    right for every unit, and what a look costs beside the steps is small.

    Attributes:
        decide: the settings.
        split: the validation split.
        owner: ``[n]`` int64, the unit of each record, from 0 to ``units`` − 1; None: each is one.
        unit: what a unit is.
        units: how many there are in the split: declared, public.
        noise_multiplier: σ; 0: the looks are raw.
        release: what the scores are once they are shown.

    """

    decide: Validation
    split: Split
    owner: np.ndarray | None
    unit: Unit
    units: int
    noise_multiplier: float
    release: LookRelease

    def score(self, model: nn.Module, device: str, source: Source) -> float:
        """Return the accuracy of ``model`` by unit, noised; ``source`` is on the CPU."""
        total = self.total(torch.from_numpy(correct(model, self.split, device)))
        if self.noise_multiplier > 0:
            std = self.noise_multiplier * SENSITIVITY
            total = total + query_noise(total, [std], source)
        return float(total) / self.units + SENSITIVITY

    def total(self, answers: Tensor) -> Tensor:
        """Return Σ_u (a_u − ½) ``[1]`` of the answers of records ``[n]`` in [0, 1].

        NaN is a record that has nothing to say: it moves nothing.
        """
        said = ~answers.isnan()
        centred = torch.where(said, answers - SENSITIVITY, 0.0).double()
        if self.owner is None:
            return centred.sum(0, keepdim=True)
        owner = torch.from_numpy(self.owner)
        sums = torch.zeros(self.units, dtype=torch.float64).index_add(0, owner, centred)
        counts = torch.zeros(self.units, dtype=torch.float64).index_add(0, owner, said.double())
        return (sums / counts.clamp(min=1)).sum(0, keepdim=True)


@dataclass(frozen=True)
class Ending:
    """How training ended: after step ``taken``, and with the parameters of step ``released``.

    ``scores`` are those of the looks that were taken, in order.
    """

    early: bool
    taken: int
    released: int
    scores: tuple[float, ...]


def ending_of(decide: Validation, steps: int, scores: Sequence[float]) -> Ending:
    """Return how training of ``steps`` steps ends, by the ``scores`` of the looks so far: by these
    alone.
    """
    looks = decide.looks(steps)
    taken, early, seen = steps, False, tuple(scores)
    for place in range(len(seen)):
        if decide.decided(seen[: place + 1]).stop and looks[place] < steps:
            taken, early, seen = looks[place], True, seen[: place + 1]
            break
    released = looks[decide.decided(seen).best] if decide.select and seen else taken
    return Ending(early, taken, released, seen)


class Watch:
    """Looks at a model while it is trained, and keeps the parameters of the best look.

    It draws from the stream ``look`` alone: training is the same bit by bit, up to where it ends.
    """

    def __init__(self, looks: Looks, model: nn.Module, streams: Streams, steps: int) -> None:
        self._looks, self._model, self._streams, self._steps = looks, model, streams, steps
        self._planned = frozenset(looks.decide.looks(steps))
        self._scores: list[float] = []
        self._kept: dict[str, Tensor] = {}

    def after(self, step: int) -> bool:
        """Look if it is time to; return whether training ends after ``step``."""
        if step not in self._planned:
            return False
        device = str(next(self._model.parameters()).device)
        source = self._streams.source("look", step)
        self._scores.append(self._looks.score(self._model, device, source))
        ending = ending_of(self._looks.decide, self._steps, self._scores)
        if self._looks.decide.select and ending.released == step:
            self._kept = {n: p.detach().clone() for n, p in self._model.named_parameters()}
        return ending.early

    def state(self) -> dict[str, Any]:
        """Return the scores so far and the parameters of the best look, for a checkpoint."""
        kept = {name: value.cpu() for name, value in self._kept.items()}
        return {"scores": list(self._scores), "kept": kept}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was."""
        device = next(self._model.parameters()).device
        self._scores = list(state["scores"])
        self._kept = {name: value.to(device) for name, value in state["kept"].items()}

    def release(self) -> Ending:
        """Put the parameters to release into the model; say how training ended."""
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                if name in self._kept:
                    parameter.copy_(self._kept[name])
        return ending_of(self._looks.decide, self._steps, self._scores)
