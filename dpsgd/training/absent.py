"""Records that are counted, and not there: their coin fell to the other side."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd.sampling.sampler import Draw


def without_absent(draw: Draw, present: Tensor, *, records: bool) -> Draw:
    """Return the draw without the records that are not ``present`` ``[n]`` bool.

    Where ``records`` are the parts that are drawn, absent ones go; a user stays, and brings fewer.
    """
    there = present[draw.records]
    rows = draw.records[there]
    if records:
        return Draw(rows, torch.arange(len(rows)), draw.members[there])
    return Draw(rows, draw.unit[there], draw.members)
