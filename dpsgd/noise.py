"""The Gaussian noise of one step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

import torch
from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.errors import PrivacyError


def gaussian_noise(
    like: Mapping[str, Tensor], groups: Groups, std: Tensor, generator: torch.Generator
) -> dict[str, Tensor]:
    """Draw independent N(0, std_g²) noise for every parameter.

    Args:
        like: parameter name to a tensor of that parameter's shape, dtype and device.
        groups: which clip group each parameter is in.
        std: ``[groups]`` standard deviation of each clip group, finite and > 0.
        generator: the noise stream of this step, on the device of the parameters.

    Raises:
        PrivacyError: a standard deviation is not finite or not positive.

    """
    of_group = check_positive("noise standard deviation", std, groups)
    sizes = [value.numel() for value in like.values()]
    types = {value.dtype for value in like.values()}
    # The widest type of all: noise of half precision would be rounded to zero under a small std.
    widest = reduce(torch.promote_types, types, torch.float32)
    device = next(iter(like.values())).device
    flat = torch.randn(sum(sizes), generator=generator, device=device, dtype=widest)
    parts = flat.split(sizes)
    if len(set(of_group)) == 1:
        flat.mul_(of_group[0])
    else:
        for name, part in zip(like, parts, strict=True):
            part.mul_(of_group[groups.index_of(name)])
    drawn = {
        name: part.view(value.shape)
        for (name, value), part in zip(like.items(), parts, strict=True)
    }
    if types == {widest}:
        return drawn
    return {name: part.to(like[name].dtype) for name, part in drawn.items()}


def query_noise(like: Tensor, std: Tensor, generator: torch.Generator) -> Tensor:
    """Draw independent N(0, std_k²) noise for the columns of ``like`` ``[k]``, on its device.

    ``std`` is ``[k]``, or ``[1]`` for all columns; PrivacyError unless all are finite and > 0.
    """
    std = std.to(like).expand(like.shape)
    if not bool((torch.isfinite(std) & (std > 0)).all()):
        raise PrivacyError(
            f"a query's noise has standard deviation {float(std.min())}; must be > 0"
        )
    return std * torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def check_positive(what: str, values: Tensor, groups: Groups) -> list[float]:
    """Return the values; raise PrivacyError unless there is one, finite and positive, per group."""
    if values.shape != (len(groups.names),):
        raise PrivacyError(
            f"{what}: shape {tuple(values.shape)}, expected one value for each of the clip groups "
            f"{', '.join(groups.names)}"
        )
    found: list[float] = values.tolist()
    for name, value in zip(groups.names, found, strict=True):
        if not (math.isfinite(value) and value > 0):
            raise PrivacyError(
                f"{what} of clip group {name!r} is {value}; it must be finite and > 0"
            )
    return found
