"""The Gaussian noise of one step."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    check_positive("noise standard deviation", std, groups)
    total = sum(value.numel() for value in like.values())
    first = next(iter(like.values()))
    flat = torch.randn(total, generator=generator, device=first.device, dtype=first.dtype)
    drawn: dict[str, Tensor] = {}
    start = 0
    for name, value in like.items():
        part = flat[start : start + value.numel()].view(value.shape)
        drawn[name] = part.mul_(float(std[groups.index_of(name)]))
        start += value.numel()
    return drawn


def check_positive(what: str, values: Tensor, groups: Groups) -> None:
    """Raise PrivacyError unless there is one finite, positive value per clip group."""
    if values.shape != (len(groups.names),):
        raise PrivacyError(
            f"{what}: shape {tuple(values.shape)}, expected one value for each of the clip groups "
            f"{', '.join(groups.names)}"
        )
    for name, value in zip(groups.names, map(float, values), strict=True):
        if not (math.isfinite(value) and value > 0):
            raise PrivacyError(
                f"{what} of clip group {name!r} is {value}; it must be finite and > 0"
            )
