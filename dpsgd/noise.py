"""The Gaussian noise of one step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from torch import Tensor

from dpsgd.clipping.groups import Groups
from dpsgd.errors import PrivacyError
from dpsgd.flattened import Flattened, empty
from dpsgd.sources import Source, fill_normal, normal


def gaussian_noise(
    like: Mapping[str, Tensor], groups: Groups, std: Sequence[float], generator: Source
) -> Flattened:
    """Draw independent N(0, std_g²) noise for every parameter.

    Args:
        like: parameter name to a tensor of that parameter's shape, dtype and device.
        groups: which clip group each parameter is in.
        std: standard deviation of each clip group, finite and > 0.
        generator: the noise stream of this step; torch's own must be on the device of the
            parameters.

    Raises:
        PrivacyError: a standard deviation is not finite or not positive.

    """
    _check_each("noise standard deviation", std, groups)
    # The widest type of all: noise of half precision would be rounded to zero under a small std.
    flat = empty(like)
    if min(std) == max(std):
        fill_normal(flat.vector, generator, std[0])
        return flat
    start = 0
    for group, members in groupby(like, groups.index_of):
        end = start + sum(like[name].numel() for name in members)
        fill_normal(flat.vector[start:end], generator, std[group])
        start = end
    return flat


def query_noise(like: Tensor, std: Sequence[float], generator: Source) -> Tensor:
    """Draw independent N(0, std_k²) noise for the columns of ``like`` ``[k]``, on its device.

    ``std`` has k values, or one for all columns; PrivacyError unless all are finite and > 0.
    """
    if not all(math.isfinite(value) and value > 0 for value in std):
        raise PrivacyError(
            f"a query's noise has standard deviations from {min(std)} to {max(std)}; every one "
            "must be finite and > 0"
        )
    drawn = normal(generator, like.shape, like.dtype, like.device)
    return drawn.mul_(std[0] if len(std) == 1 else drawn.new_tensor(std))


def check_positive(what: str, values: Tensor, groups: Groups) -> list[float]:
    """Return the values; raise PrivacyError unless there is one, finite and positive, per group."""
    if values.shape != (len(groups.names),):
        raise PrivacyError(
            f"{what}: shape {tuple(values.shape)}, expected one value for each of the clip groups "
            f"{', '.join(groups.names)}"
        )
    found: list[float] = values.tolist()
    _check_each(what, found, groups)
    return found


def _check_each(what: str, values: Sequence[float], groups: Groups) -> None:
    for name, value in zip(groups.names, values, strict=True):
        if not (math.isfinite(value) and value > 0):
            raise PrivacyError(
                f"{what} of clip group {name!r} is {value}; it must be finite and > 0"
            )
