"""How many units of each slice were clipped and how many were not, as columns of the release."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpsgd.clipping.rule import Info, ReleasePurpose

PURPOSE: ReleasePurpose = "slice telemetry"
"""What the ledger calls these columns, and the key of the memberships in ``info``."""

WHOLE = 1 - 1e-5
"""A weight below this clips; the safety factor that a step puts on every weight does not."""


@dataclass(frozen=True)
class SliceCounts:
    """Two columns for each of ``slices`` slices and each counted clip group: units that were
    clipped, and units that were not; their sum is the number of units that were sampled.

    A unit of a slice answers with one 1 in one of the two, so that a unit in ``most`` slices has
    L2 norm √(most·counted groups). Sampled and clipped as two columns would have norm √2 times
    that for a clipped unit; this pair is the same two numbers, centred and turned by 45 degrees,
    and gives the clip fraction with at most half the variance. A unit in more slices than ``most``
    is cut to that norm by :class:`dpsgd.clipping.joint.Joint`: it counts less than once in each.

    ``of_groups`` counts every one of ``groups`` clip groups by itself, before all of them together
    (clipped in any); with one clip group there is nothing to add.
    """

    slices: int
    groups: int
    most: int
    of_groups: bool

    @property
    def purpose(self) -> ReleasePurpose:
        """Return what the ledger calls these columns."""
        return PURPOSE

    @property
    def counted(self) -> int:
        """Return how many clip groups are counted, that of all included."""
        return 1 + (self.groups if self.of_groups and self.groups > 1 else 0)

    @property
    def columns(self) -> int:
        """Return 2 · slices · counted groups."""
        return 2 * self.slices * self.counted

    @property
    def sensitivity(self) -> float:
        """Return √(most·counted groups)."""
        return math.sqrt(self.most * self.counted)

    def ask(self, norms: Tensor, weights: Tensor, info: Info) -> Tensor:
        """Return ``[..., slices · counted · 2]``: (clipped, not clipped) by slice, then group."""
        clipped = (weights < WHOLE) & (norms > 0)
        together = clipped.any(-1, keepdim=True)
        if self.counted > 1:
            together = torch.cat([clipped, together], dim=-1)
        sides = torch.stack([together, ~together], dim=-1)
        member = info[PURPOSE].to(norms.device) != 0
        return (member[..., :, None, None] & sides[..., None, :, :]).flatten(-3).to(norms.dtype)
